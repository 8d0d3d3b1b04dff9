package import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// The users and groups that this process acts as.
package enum Credentials {
  package static var user: UserID { UserID(rawValue: geteuid()) }
  package static var group: GroupID { GroupID(rawValue: getegid()) }

  /// Whether this process belongs to a group, also as a supplementary one.
  ///
  /// Then it may give its files to the group.
  package static func belong(to group: GroupID) -> Bool {
    if group == self.group { return true }
    let count = max(0, getgroups(0, nil))
    var groups = [gid_t](repeating: 0, count: Int(count))
    // Fewer than before, or none: they were changed just now.
    let found = max(0, unsafe getgroups(count, &groups))
    return groups.prefix(Int(found)).contains(group.rawValue)
  }
}
