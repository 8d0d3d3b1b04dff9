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
