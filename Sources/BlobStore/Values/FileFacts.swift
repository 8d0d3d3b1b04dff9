internal import BlobRecord
internal import Posix
internal import SystemPackage

/// The part of a record file's status that is needed. It is small, because each store copies it with a found record.
struct FileFacts {
  /// The size of the file, including the header.
  let byteCount: Int64
  let owner: UserID
  let hasOtherNames: Bool
  let modified: UnixTime
  let state: FileState

  /// Creates the facts that a packed record would have as a file.
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

/// The identity of a file, and the time of its last change of any kind.
struct FileState: Hashable {
  private let inode: UInt64
  private let changeNanoseconds: Int64

  /// Creates the state of a packed record, which stays equal until the record is moved or used.
  init(packedAt address: UInt64, sequence: UInt64, lastUse: UInt64) {
    inode = address
    changeNanoseconds = Int64(bitPattern: sequence << 32 ^ lastUse)
  }

  init(_ status: Stat) {
    inode = status.inodeNumber
    changeNanoseconds = status.changeNanoseconds
  }
}

/// The content of a record file at one point in time, which a later status can show to be unchanged.
package struct FileVersion: Hashable, Sendable {
  private let inode: UInt64
  private let modificationNanoseconds: Int64

  /// Creates a version from a status that was read under the record's stripe. Returns `nil` if a further write might
  /// not change the file's time, which is the case shortly after a write, and with times in whole seconds.
  init?(_ status: Stat) {
    guard Stat.isSurelyPast(status.modificationNanoseconds, atTick: SystemClock.tickNanoseconds()) else { return nil }
    inode = status.inodeNumber
    modificationNanoseconds = status.modificationNanoseconds
  }

  func isCurrent(in status: Stat) -> Bool {
    status.inodeNumber == inode && status.modificationNanoseconds == modificationNanoseconds
  }
}
