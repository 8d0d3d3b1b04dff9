internal import Posix
internal import SystemPackage

/// Which file of a record it was that somebody has looked at, and what had been written to it by then: a look at its status
/// tells later whether anybody has written to it since, without reading it.
struct FileVersion {
  private let inode: UInt64
  private let modificationNanoseconds: Int64

  /// - Parameter status: from under the stripe of the record, which is held still: nobody writes to it meanwhile.
  /// - Returns: nil if the file was written to so lately that a further write might not show in its time, or if that is in
  ///   whole seconds.
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
