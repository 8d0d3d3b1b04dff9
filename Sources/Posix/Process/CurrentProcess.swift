internal import CPosix
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

package enum CurrentProcess {
  /// The number of forks since the library was loaded, by which a store detects a use in a forked child.
  package static var forkCount: CInt { blob_fork_count() }

  package static var identifier: Int32 { getpid() }

  /// The size of a page of memory in bytes, which the kernel maps and writes as a whole.
  package static let memoryPageByteCount = Int(sysconf(CInt(_SC_PAGESIZE)))

  package static var openFileLimit: Int? {
    let limit = sysconf(CInt(_SC_OPEN_MAX))
    return limit < 0 ? nil : limit
  }
}

package enum Credentials {
  package static var user: UserID { UserID(rawValue: geteuid()) }
  package static var group: GroupID { GroupID(rawValue: getegid()) }

  /// Checks for membership in a group, including supplementary ones; members may give their files to the group.
  package static func belong(to group: GroupID) -> Bool {
    if group == self.group { return true }
    let count = max(0, getgroups(0, nil))
    var groups = [gid_t](repeating: 0, count: Int(count))
    // The number may be smaller or negative if the groups have just changed.
    let found = max(0, unsafe getgroups(count, &groups))
    return groups.prefix(Int(found)).contains(group.rawValue)
  }
}
