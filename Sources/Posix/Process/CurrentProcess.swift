internal import CPosix

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
