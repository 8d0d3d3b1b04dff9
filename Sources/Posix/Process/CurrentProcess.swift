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

/// The process this code runs in.
package enum CurrentProcess {
  /// How many forks lie between this process and the one that loaded the library. A store remembers it, and so notices
  /// that it is used in a child, where it would share its locks with its parent.
  package static var forkCount: CInt { blob_fork_count() }

  package static var identifier: Int32 { getpid() }

  /// How many files it may have open at a time; nil without a limit.
  package static var openFileLimit: Int? {
    let limit = sysconf(CInt(_SC_OPEN_MAX))
    return limit < 0 ? nil : limit
  }
}

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
