public import BlobRecord
internal import Posix
internal import SystemPackage

/// The state of a record.
public enum RecordState: String, CaseIterable, Sendable {
  /// The record is neither expired nor locked.
  case live
  /// The record has exceeded its time to live and is not locked, so it is treated as absent.
  case expired
  /// The record has at least one lock, which keeps it from expiring.
  case locked
  /// The file breaks a rule of the format.
  case damaged
  /// A living writer has not completed the payload yet, so the record cannot be loaded.
  case streaming
  /// The file, or a directory of files, could not be read, so nothing is known about it.
  case unreadable
}

extension RecordState {
  init(_ breach: RecordError) {
    self = breach == .recordIsStreamAndBusy ? .streaming : .damaged
  }
}

/// A record in an enumeration, with its header, location, and state, but without its payload.
public struct RecordEntry: Sendable {
  /// The key, or `nil` if neither the file name nor the record contains it.
  public let key: BlobKey?
  /// The data stored next to the payload, or `nil` if the record has no such data.
  public let extendedData: Data?
  /// The path relative to the root of the record's file, or of the pack that contains the record.
  public let file: String
  /// The location of the record in its pack, or `nil` if the record is a file.
  public let packed: PackedPlace?
  /// The size in bytes of the file, with header, payload, and extension. A packed record has the size of an equal file.
  public let fileSize: Int64
  /// The modification time of the file, or the last update of a packed record.
  public let modified: UnixTime
  public let state: RecordState
  /// The header if it is sound, although the file may still be damaged.
  public let header: RecordHeader?
  /// The time at which the record expires unless it is locked, or `nil` if the header is not sound.
  public let expiry: UnixTime?
  /// A Boolean value that indicates whether the update time is too far ahead (`RecordHeader.clockTolerance`).
  ///
  /// The next collection corrects the time.
  public let isStampedAhead: Bool
  /// The fields in the first 64 bytes, or `nil` if the file is shorter.
  public let storedHeader: StoredHeader?
  /// The first broken rule of a damaged file or of a stream.
  public let damage: RecordError?
  /// The error that kept an unreadable file from being read.
  public let accessError: BlobStoreError?

  let path: RecordPath?
  let fileState: FileState?
  let isMeasured: Bool

  var size: RecordSize {
    let isStream = damage == .recordIsStreamAndBusy || damage == .abandonedStream
    return isStream ? .stream : RecordSize(bytes: fileSize, isLocked: state == .locked)
  }
}

extension RecordEntry {
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
      // `damage` describes the error of a header that is not sound.
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

  /// Creates the entry of an unreadable file or subdirectory, whose `status` is `nil` if the system refused it.
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
  /// Creates the time of the second that contains a date, clamped to the range of `Int64`.
  public init(_ date: Date) {
    let seconds = date.timeIntervalSince1970.rounded(.down)
    self.init(seconds: Int64(exactly: seconds) ?? (seconds < 0 ? .min : .max))
  }

  /// The beginning of the second, as a date.
  public var date: Date { Date(timeIntervalSince1970: Double(seconds)) }
}

extension StoreCore {
  func entry(of found: borrowing FoundRecord, at now: UnixTime) -> RecordEntry {
    RecordEntry(found, configuration.layout.naming, now: now, defaultExpiration: defaultExpiration)
  }
}
