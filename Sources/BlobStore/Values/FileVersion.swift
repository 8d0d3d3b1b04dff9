internal import Posix
internal import SystemPackage

/// A file of a record and its content, as they were at one look.
///
/// A later look at its status tells if it was written to since, without reading it.
package struct FileVersion: Hashable, Sendable {
  private let inode: UInt64
  private let modificationNanoseconds: Int64

  /// - Parameter status: from under the record's stripe, when no other process writes to it.
  /// - Returns: nil if a further write might not show in the file's time. That is so soon after a write, and with times
  ///   in whole seconds.
  init?(_ status: Stat) {
    guard Stat.isSurelyPast(status.modificationNanoseconds, atTick: SystemClock.tickNanoseconds()) else { return nil }
    inode = status.inodeNumber
    modificationNanoseconds = status.modificationNanoseconds
  }

  /// Whether it is the file, and as it was.
  func isCurrent(in status: Stat) -> Bool {
    status.inodeNumber == inode && status.modificationNanoseconds == modificationNanoseconds
  }
}
