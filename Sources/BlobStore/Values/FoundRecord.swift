internal import BlobRecord
internal import Posix
internal import SystemPackage

/// A record file at its name, looked at once: what its status and its header said.
///
/// Nothing holds it still. A change looks under the key's hold, and changes what it has found there. It is lent, never
/// copied: a copy would cost a store more than the look.
struct FoundRecord: ~Copyable {
  let name: RecordPath
  /// nil if not even its status could be had.
  let file: FileFacts?
  /// nil if the file's time would not show what is written to it from now on. Of use only if the key was held.
  let version: FileVersion?
  /// The fields in the first 64 bytes; nil where there are fewer, or none could be read.
  let stored: StoredHeader?
  /// What lies behind the payload; nil of a record without it, of a damaged one, and where it was not read.
  let `extension`: RecordExtension?
  let content: Content
  /// Where it lies in a pack; nil of a file.
  let packed: PackedPlace?

  enum Content {
    case sound
    case expired
    case damaged(RecordError)
    /// Nothing is known of it.
    case unreadable(any Error)
  }

  /// Looks at an open file.
  ///
  /// System call: `pread(2)`; another one for an extension.
  ///
  /// - Parameters:
  ///   - status: from before, so that a later write shows.
  ///   - isExposed: whether users that may not change the cache may write to the file.
  ///   - judge: whether age matters.
  ///   - readsExtension: whether to read an extension, too.
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
    // Nothing is thrown once a part of it is there.
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

  /// A record in a pack, whose header was read.
  ///
  /// - Parameters:
  ///   - extension: nil of a record without one, and of one whose extension is damaged.
  ///   - payloadBreach: nil also where the payload was not compared with its checksum.
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

  /// A packed record whose header is damaged.
  init(_ name: RecordPath, damagedAt place: PackedPlace, _ error: RecordError, _ file: FileFacts) {
    self.name = name
    self.file = file
    version = nil
    stored = nil
    `extension` = nil
    packed = place
    content = .damaged(error)
  }

  /// A file that could not be read.
  ///
  /// - Parameter status: nil if even that could not be had.
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
  /// The address in the packs; nil of a file.
  var packAddress: UInt64? { packed?.address }

  /// The header of a record that is sound, expired or not. A damaged one tells of no locks.
  var header: RecordHeader? {
    switch content {
    case .sound, .expired: stored?.fields
    case .damaged, .unreadable: nil
    }
  }

  /// The header of a record that is live for the judge's time, or is being written.
  var liveHeader: RecordHeader? {
    switch content {
    case .sound, .damaged(.recordIsStreamAndBusy): stored?.fields
    case .expired, .damaged, .unreadable: nil
    }
  }

  var byteCount: Int64 { file?.byteCount ?? 0 }

  var isLocked: Bool { header?.isLocked ?? false }

  /// Whether a lock may be lost with it: what cannot be read may be locked.
  var mayBeLocked: Bool {
    if case .unreadable = content { true } else { isLocked }
  }

  /// Whether its payload is not complete, whether or not it is being written.
  var isStream: Bool {
    switch content {
    case .damaged(.recordIsStreamAndBusy), .damaged(.abandonedStream): true
    default: false
    }
  }

  /// As the counters see it.
  var size: RecordSize { isStream ? .stream : RecordSize(bytes: byteCount, isLocked: isLocked) }

  /// Where a record lies in a pack; nil of a file, and without a record.
  ///
  /// Never inlined: the optimizer of Swift 6.3 fails where a value that cannot be copied is looked into and then lent.
  @inline(never)
  static func packAddress(of found: borrowing FoundRecord?) -> UInt64? {
    switch found {
    case nil: nil
    case let found?: found.packAddress
    }
  }
}

/// The facts of a record that matter for its successor.
struct Predecessor {
  let size: RecordSize
  let refCount: UInt32
  /// nil for a record that is not live for the judge's time, unless it is being written.
  let liveHeader: RecordHeader?
  /// Where it lies in a pack; nil of a file.
  let packAddress: UInt64?

  /// - Returns: nil for nil.
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
