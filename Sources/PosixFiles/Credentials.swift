package import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// Who this process acts as.
package enum Credentials {
  package static var user: UserID { UserID(rawValue: geteuid()) }
  package static var group: GroupID { GroupID(rawValue: getegid()) }
}
