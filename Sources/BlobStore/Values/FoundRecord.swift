internal import BlobRecord
internal import Posix
internal import SystemPackage

/// A record file with its status and header at the time of a lookup.
///
/// Nothing prevents changes of the file afterwards, so a change reads the record under the key's hold. The value is
/// borrowed and never copied, because a copy would cost a store more than the lookup.
struct FoundRecord: ~Copyable {
  let name: RecordPath
  /// The facts of the file, or `nil` if not even its status could be read.
  let file: FileFacts?
  /// The version of the file, which is valid only if the key was held, or `nil` if a write might not change its time.
  let version: FileVersion?
  /// The fields in the first 64 bytes, or `nil` if the file is shorter or could not be read.
  let stored: StoredHeader?
  /// The extension behind the payload, or `nil` if it does not exist, the record is damaged, or it was not read.
  let `extension`: RecordExtension?
  let content: Content
  let packed: PackedPlace?

  enum Content {
    case sound
    case expired
    case damaged(RecordError)
    case unreadable(any Error)
  }

  /// Reads the header of an open file.
  ///
  /// System calls: `pread(2)`, and another one for an extension.
  ///
  /// - Parameters:
  ///   - status: The status, read before the header so that a later write is detected.
  ///   - isExposed: A Boolean value that indicates whether users who may not change the cache may write to the file.
  ///   - judge: The judge, which decides whether the record's age matters.
  init(
    _ name: RecordPath, _ file: borrowing OpenFile, _ status: Stat, isExposed: Bool, by judge: RecordJudge,
    readsExtension: Bool
  ) throws(FileError) {
    var facts = RecordFacts(fileSize: status.size, nameDigest: name.digest)
    let fields: StoredHeader?
    let verdict: RecordVerdict
    var tail: RecordExtension?
    switch try file.readHeader() {
    case .success(let header):
      fields = header
      if readsExtension { tail = try file.readExtension(by: header, &facts) }
      verdict = judge.judge(header, facts)
    case .failure(let error):
      fields = nil
      verdict = .broken(error, nil)
    }
    // Nothing is thrown after a part of the value is initialized.
    let content: Content =
      switch verdict {
      case .broken(let error, _): .damaged(try file.settled(error))
      case .sound where isExposed, .expired where isExposed: .damaged(.writableByOthers)
      case .sound: .sound
      case .expired: .expired
      }
    self.name = name
    self.file = FileFacts(status)
    version = FileVersion(status)
    stored = fields
    `extension` = tail
    self.content = content
    packed = nil
  }

  /// Creates a packed record from its header. `extension` is also `nil` if it is damaged, and `payloadBreach` is `nil`
  /// if the checksum matches or was not compared.
  init(
    _ name: RecordPath, packed header: RecordHeader, _ file: FileFacts, at place: PackedPlace, by judge: RecordJudge,
    _ extension: RecordExtension?, payloadBreach: RecordError? = nil
  ) {
    let stored = StoredHeader(header)
    var facts = RecordFacts(fileSize: file.byteCount, nameDigest: name.digest)
    if header.extensionEnd != nil { facts.hasWholeExtension = `extension` != nil }
    self.name = name
    self.file = file
    version = nil
    self.stored = stored
    self.extension = `extension`
    packed = place
    content =
      switch judge.judge(stored, facts) {
      case .broken(let error, _): .damaged(error)
      case .expired: .expired
      case .sound: payloadBreach.map { .damaged($0) } ?? .sound
      }
  }

  init(_ name: RecordPath, damagedAt place: PackedPlace, _ error: RecordError, _ file: FileFacts) {
    self.name = name
    self.file = file
    version = nil
    stored = nil
    `extension` = nil
    packed = place
    content = .damaged(error)
  }

  init(_ name: RecordPath, unreadable error: any Error, _ status: Stat?) {
    self.name = name
    file = status.map { FileFacts($0) }
    version = nil
    stored = nil
    `extension` = nil
    packed = nil
    content = .unreadable(error)
  }
}

extension FoundRecord {
  var packAddress: UInt64? { packed?.address }

  /// The header of a sound record, expired or not. The locks of a damaged record are unknown.
  var header: RecordHeader? {
    switch content {
    case .sound, .expired: stored?.fields
    case .damaged, .unreadable: nil
    }
  }

  /// The header of a record that is live at the judge's time, or is being written.
  var liveHeader: RecordHeader? {
    switch content {
    case .sound, .damaged(.recordIsStreamAndBusy): stored?.fields
    case .expired, .damaged, .unreadable: nil
    }
  }

  var byteCount: Int64 { file?.byteCount ?? 0 }

  var isLocked: Bool { header?.isLocked ?? false }

  /// A Boolean value that indicates whether removing the record may lose a lock, as with unreadable records.
  var mayBeLocked: Bool {
    if case .unreadable = content { true } else { isLocked }
  }

  /// A Boolean value that indicates whether the payload is incomplete, whether or not its writer lives.
  var isStream: Bool {
    switch content {
    case .damaged(.recordIsStreamAndBusy), .damaged(.abandonedStream): true
    default: false
    }
  }

  var size: RecordSize { isStream ? .stream : RecordSize(bytes: byteCount, isLocked: isLocked) }

  /// Never inlined, because the optimizer of Swift 6.3 fails if a noncopyable value is inspected and then borrowed.
  @inline(never)
  static func packAddress(of found: borrowing FoundRecord?) -> UInt64? {
    switch found {
    case nil: nil
    case let found?: found.packAddress
    }
  }
}

/// The facts about a record that its successor needs.
struct Predecessor {
  let size: RecordSize
  let refCount: UInt32
  /// The header, or `nil` if the record is neither live at the judge's time nor being written.
  let liveHeader: RecordHeader?
  let packAddress: UInt64?

  init?(_ found: borrowing FoundRecord?) {
    switch found {
    case nil: return nil
    case let found?:
      size = found.size
      refCount = found.header?.refCount ?? 0
      liveHeader = found.liveHeader
      packAddress = found.packAddress
    }
  }
}
