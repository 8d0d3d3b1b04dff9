internal import BlobRecord
internal import Posix
internal import SystemPackage

/// A sound record as a walk over very many meets it: header, size and what tells it from others.
///
/// Nothing of it is allocated.
struct RecordGlance {
  let header: RecordHeader
  let fileSize: Int64
  let fileState: FileState
  /// `NameDigest` of the file name.
  let digest: UInt64
  /// Live, locked or expired.
  let state: RecordState
  /// Where it lies in a pack; nil for a file.
  let packed: IndexEntry?

  var isPacked: Bool { packed != nil }

  var size: RecordSize { RecordSize(bytes: fileSize, isLocked: state == .locked) }

  /// - Parameter head: the file's first 64 bytes, fewer if it has no more.
  /// - Returns: nil if the record breaks a rule: `RecordEntry` says which.
  init?(_ head: RawSpan, _ status: Stat, digest: UInt64, by judge: RecordJudge) {
    fileSize = status.size
    fileState = FileState(status)
    switch judge.judge(head, RecordFacts(fileSize: fileSize, nameDigest: digest)) {
    case .sound(let sound): (header, state) = (sound, sound.isLocked ? .locked : .live)
    case .expired(let sound): (header, state) = (sound, .expired)
    case .broken: return nil
    }
    self.digest = digest
    packed = nil
  }

  /// A record that lies in a pack.
  init?(_ found: PackedFinding, digest: UInt64, by judge: RecordJudge) {
    let header = found.recordHeader(nameDigest: digest)
    fileSize = header.fileByteCount
    fileState = found.fileState
    switch judge.judge(StoredHeader(header), RecordFacts(fileSize: fileSize, nameDigest: digest)) {
    case .sound(let sound): (self.header, state) = (sound, sound.isLocked ? .locked : .live)
    case .expired(let sound): (self.header, state) = (sound, .expired)
    case .broken: return nil
    }
    self.digest = digest
    packed = found.entry
  }
}
