public import BlobRecord
internal import Posix
internal import SystemPackage

/// The state of a record.
public enum RecordState: String, CaseIterable, Sendable {
  /// Not expired, not locked.
  case live
  /// Past its time to live, and not locked: as good as absent.
  case expired
  /// Held by at least one lock, at any age.
  case locked
  /// The file breaks a rule of the format.
  case damaged
  /// A writer that lives has not completed the payload: there is nothing to load yet.
  case streaming
  /// The file, or a directory of them, could not be read; nothing is known of it.
  case unreadable
}

extension RecordState {
  /// The state of a record that breaks a rule.
  init(_ breach: RecordError) {
    self = breach == .recordIsStreamAndBusy ? .streaming : .damaged
  }
}

/// A record as an enumeration found it: its header, its place and its state, without its payload.
public struct RecordEntry: Sendable {
  /// nil where neither the file name nor the record tells it.
  public let key: BlobKey?
  /// What was stored beside the payload; nil for nothing.
  public let extendedData: Data?
  /// The file's path relative to the root: for a packed record, that of its pack.
  public let file: String
  /// Where the record lies in its pack; nil of one that has a file to itself.
  public let packed: PackedPlace?
  /// The file's size in bytes: header, payload and extension. A packed record has the size that its file would have.
  public let fileSize: Int64
  /// When the file was last changed, by the file system. For a packed record, its last update.
  public let modified: UnixTime
  public let state: RecordState
  /// The header, where it is sound in itself; the file may still be damaged.
  public let header: RecordHeader?
  /// When the record expires, unless it is locked; nil where the header is not sound.
  public let expiry: UnixTime?
  /// Whether a clock that was ahead has stamped the record (`RecordHeader.clockTolerance`): the next collection stamps it
  /// anew.
  public let isStampedAhead: Bool
  /// The fields in the first 64 bytes; nil where there are fewer.
  public let storedHeader: StoredHeader?
  /// The first broken rule of a damaged file, and of a stream.
  public let damage: RecordError?
  /// Why an unreadable one could not be read.
  public let accessError: BlobStoreError?

  let path: RecordPath?
  /// nil of a file that could not be read.
  let fileState: FileState?
  /// Whether `fileSize` is known.
  let isMeasured: Bool

  var size: RecordSize {
    let isStream = damage == .recordIsStreamAndBusy || damage == .abandonedStream
    return isStream ? .stream : RecordSize(bytes: fileSize, isLocked: state == .locked)
  }
}

extension RecordEntry {
  /// A record as a reader sees it at a time.
  init(_ found: borrowing FoundRecord, _ naming: RecordNaming, now: UnixTime, defaultExpiration: Int64) {
    path = found.name
    let place = found.packed
    packed = place
    file = place?.file ?? found.name.relative
    fileSize = found.byteCount
    storedHeader = found.stored
    isMeasured = found.file != nil
    let kept = found.extension
    switch found.content {
    case .sound, .expired:
      (header, accessError) = (found.header, nil)
      damage = naming.breach(ofKept: kept?.key, inRecordNamed: found.name.fileName)
      let isExpired = if case .expired = found.content { true } else { false }
      state = damage != nil ? .damaged : isExpired ? .expired : found.isLocked ? .locked : .live
    case .damaged(let error):
      // `damage` says what is wrong with a header that is not sound.
      (state, header, damage, accessError) = (RecordState(error), try? found.stored?.validated(), error, nil)
    case .unreadable(let error):
      (state, header, damage) = (.unreadable, nil, nil)
      accessError = BlobStoreError(error, operation: "read", key: nil)
    }
    let isRead = state != .unreadable
    key = isRead ? naming.key(ofFileName: found.name.fileName) ?? (damage == nil ? kept?.key : nil) : nil
    extendedData = kept?.extendedData
    modified = found.file.flatMap { isRead ? $0.modified : nil } ?? UnixTime(seconds: 0)
    fileState = isRead ? found.file?.state : nil
    expiry = header?.expiry(defaultExpiration: defaultExpiration)
    isStampedAhead = header?.isStampedAhead(of: now) ?? false
  }

  /// A file or subdirectory that could not be read.
  ///
  /// - Parameter status: nil where the system refused it.
  init(unreadable file: String, path: RecordPath? = nil, status: Stat? = nil, _ error: BlobStoreError) {
    self.path = path
    fileState = nil
    isMeasured = status != nil
    key = nil
    extendedData = nil
    packed = nil
    self.file = file
    fileSize = status?.size ?? 0
    modified = UnixTime(seconds: 0)
    state = .unreadable
    header = nil
    expiry = nil
    isStampedAhead = false
    storedHeader = nil
    damage = nil
    accessError = error
  }

  /// This entry, after its payload was found to be damaged.
  func damaged(_ error: RecordError) -> RecordEntry {
    RecordEntry(self, state: RecordState(error), damage: error)
  }

  private init(_ entry: RecordEntry, state: RecordState, damage: RecordError?) {
    path = entry.path
    fileState = entry.fileState
    isMeasured = entry.isMeasured
    key = entry.key
    extendedData = entry.extendedData
    file = entry.file
    packed = entry.packed
    fileSize = entry.fileSize
    modified = entry.modified
    header = entry.header
    expiry = entry.expiry
    isStampedAhead = entry.isStampedAhead
    storedHeader = entry.storedHeader
    accessError = entry.accessError
    self.state = state
    self.damage = damage
  }
}

extension UnixTime {
  /// The second of a date. Dates that `Int64` cannot count become its least or its greatest value.
  public init(_ date: Date) {
    let seconds = date.timeIntervalSince1970.rounded(.down)
    self.init(seconds: Int64(exactly: seconds) ?? (seconds < 0 ? .min : .max))
  }

  /// The beginning of the second.
  public var date: Date { Date(timeIntervalSince1970: Double(seconds)) }
}

extension StoreCore {
  func entry(of found: borrowing FoundRecord, at now: UnixTime) -> RecordEntry {
    RecordEntry(found, configuration.layout.naming, now: now, defaultExpiration: defaultExpiration)
  }
}
