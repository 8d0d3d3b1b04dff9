internal import BlobRecord
internal import Posix
internal import SystemPackage

/// The used part of a record file's status.
///
/// A third of the whole: it is copied with each record that is found, and stores find one each.
struct FileFacts {
  /// Header included.
  let byteCount: Int64
  let owner: UserID
  /// Whether the file has more than one hard link.
  let hasOtherNames: Bool
  let modified: UnixTime
  let state: FileState

  /// What a record in a pack would have as a file.
  init(packed header: RecordHeader, byteCount: Int64, owner: UserID, _ state: FileState) {
    self.byteCount = byteCount
    self.owner = owner
    hasOtherNames = false
    modified = header.lastUpdate
    self.state = state
  }

  init(_ status: Stat) {
    byteCount = status.size
    owner = status.userID
    hasOtherNames = status.linkCount > 1
    modified = UnixTime(seconds: status.modifiedSeconds)
    state = FileState(status)
  }
}

/// Which file it is, and when anything about it was last changed.
struct FileState: Hashable {
  private let inode: UInt64
  private let changeNanoseconds: Int64

  /// Of a packed record, which is one as long as it lies where it does and is not used.
  init(packedAt address: UInt64, sequence: UInt64, lastUse: UInt64) {
    inode = address
    changeNanoseconds = Int64(bitPattern: sequence << 32 ^ lastUse)
  }

  init(_ status: Stat) {
    inode = status.inodeNumber
    changeNanoseconds = status.changeNanoseconds
  }
}

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
