public import BlobRecord
internal import Posix
public import SystemPackage

/// A record in detail: each field of its header judged by itself, and the payload.
///
/// A packed record is shown as the file that it would be.
///
/// It is for looks into a cache. A load would report only the first broken rule, `damage`.
public struct RecordInspection: Sendable {
  /// Of the file: for a packed record, that of its pack.
  public let path: FilePath
  /// Where the record lies in its pack; nil of one that has a file to itself.
  public let packed: PackedPlace?
  /// nil where neither the file name nor the record tells it.
  public let key: BlobKey?
  /// What was stored beside the payload; nil for nothing.
  public let extendedData: Data?
  /// Bytes, header included.
  public let fileSize: Int64
  /// Bytes of payload that the file has.
  public var payloadByteCount: Int64 {
    let byteCount = max(0, fileSize - Int64(RecordHeader.byteCount))
    guard let storedHeader, storedHeader.flags.contains(.hasExtension) else { return byteCount }
    return min(byteCount, Int64(clamping: storedHeader.payloadSize))
  }
  /// The first 64 bytes, or as many as there are.
  public let headerBytes: [UInt8]
  /// Their fields; nil where there are fewer than 64.
  public let storedHeader: StoredHeader?
  /// The first broken rule, that of the payload included, at any age of the record.
  public let damage: RecordError?
  public let state: RecordState
  /// When an unlocked record expires; nil where the header is not sound.
  public let expiry: UnixTime?
  /// The CRC-32 of the payload as it is. nil if the header carries no checksum, is not sound, or states another size or
  /// more than `limits.payload`.
  public var payloadChecksum: UInt32? { facts.payloadCRC }
  /// A guess.
  public let payloadKind: PayloadKind

  private let facts: RecordFacts
  private let now: UnixTime

  /// The judgement of one field.
  public enum Verdict: Hashable, Sendable {
    case ok
    /// No rule forbids it, but this library never writes it.
    case unusual(String)
    case broken(RecordError)
  }
}

extension BlobStore {
  /// Inspects a record file, which may lie anywhere, also outside of a cache.
  ///
  /// This store's naming, default expiration and clock judge its key and age. The file is not touched.
  ///
  /// - Throws: `foreignFile` if it is no regular file; `fileSystem`.
  /// - Complexity: reads the whole file, 256 KiB at a time, where its payload has a checksum.
  public func inspect(_ path: FilePath) throws(BlobStoreError) -> RecordInspection {
    try inspect(path, checkingUpTo: .max)
  }

  /// As `inspect`, where no larger payload is compared with its checksum than of so many bytes.
  package func inspect(
    _ path: FilePath, checkingUpTo byteCount: UInt64
  ) throws(BlobStoreError) -> RecordInspection {
    try withErrorContext("inspect") {
      try core.inspection(of: path, checkingUpTo: core.inspectionLimit(byteCount))
    }
  }
}

extension StoreCore {
  /// - Parameter byteCount: what is asked for.
  /// - Returns: the largest payload that is compared with its checksum.
  func inspectionLimit(_ byteCount: UInt64) -> UInt64 { min(byteCount, UInt64(clamping: configuration.limits.payload)) }

  func inspection(of path: FilePath, checkingUpTo limit: UInt64) throws -> RecordInspection {
    let inspection = try RecordInspection(path, of: self, checkingUpTo: limit)
    // A header that is changed in place may be seen half done.
    return inspection.damage == nil ? inspection : try RecordInspection(path, of: self, checkingUpTo: limit)
  }
}

extension RecordInspection {
  fileprivate init(_ path: FilePath, of store: StoreCore, checkingUpTo limit: UInt64) throws {
    let name = path.lastComponent?.string ?? path.string
    let parent = path.removingLastComponent()
    guard let directory = try Directory(at: parent.isEmpty ? "." : parent, files: Files()) else {
      throw FileError(.open, Location(path), .noSuchFileOrDirectory)
    }
    switch try directory.openFile(name, for: .read) {
    case .absent: throw FileError(.open, Location(path), .noSuchFileOrDirectory)
    case .notRegular: throw BlobStoreError(.foreignFile, "this is no regular file", path: path)
    case .regular(let file, let status): try self.init(path, named: name, file, status, of: store, checkingUpTo: limit)
    }
  }

  /// - Parameters:
  ///   - name: the file name of the record.
  ///   - place: where it lies in a pack, if that is what the file was made of.
  init(
    _ path: FilePath, named name: String, at place: PackedPlace? = nil, _ file: borrowing OpenFile, _ status: Stat,
    of store: StoreCore, checkingUpTo limit: UInt64
  ) throws {
    self.path = path
    packed = place
    let naming = store.configuration.layout.naming
    fileSize = status.size
    now = store.configuration.now()

    let start = try file.bytes(atMost: RecordHeader.byteCount + PayloadKind.examinedByteCount)
    let head = Array(start.prefix(RecordHeader.byteCount))
    let payloadStart = start.dropFirst(RecordHeader.byteCount)
    headerBytes = head
    // Fewer than 64 bytes make none, as `damage` says.
    let stored = try? unsafe StoredHeader(decoding: head.span.bytes)
    storedHeader = stored
    let payloadBytes = Array(
      payloadStart.prefix(stored?.payloadRange(ofBody: payloadStart.count).count ?? payloadStart.count))
    payloadKind = unsafe PayloadKind(guessedFrom: payloadBytes.span.bytes)
    let judge = RecordJudge()
    var facts = RecordFacts(fileSize: status.size)
    // A file may claim to be endless; what no load would return is not read.
    if let sound = unsafe judge.judge(head.span.bytes, facts).soundHeader, sound.payloadChecksum != nil,
      sound.payloadSize <= limit
    {
      try file.readPayloadChecksum(by: sound, &facts)
      // As it is on disk: what is missing there is no damage of the payload.
      facts.bodyByteCount = status.size - Int64(RecordHeader.byteCount)
    }
    let kept = try stored.flatMap { try file.readExtension(by: $0, &facts) }
    facts.nameDigest = NameDigest.digest(ofFileName: name)
    self.facts = facts
    extendedData = kept?.extendedData
    let breach = naming.breach(ofKept: kept?.key, inRecordNamed: name)
    key = naming.key(ofFileName: name) ?? (breach == nil ? kept?.key : nil)
    let header: RecordHeader?
    switch unsafe judge.judge(head.span.bytes, facts) {
    case .sound(let sound), .expired(let sound):
      (header, damage) = (sound, breach)
      let isLive = sound.isLive(at: now, defaultExpiration: store.defaultExpiration)
      state = breach != nil ? .damaged : sound.isLocked ? .locked : isLive ? .live : .expired
    case .broken(let error, let sound):
      let breach = try file.settled(error)
      (header, damage, state) = (sound, breach, RecordState(breach))
    }
    expiry = header?.expiry(defaultExpiration: store.defaultExpiration)
  }

  /// A packed record whose header is damaged: it makes no file.
  init(
    _ path: FilePath, damagedAt place: PackedPlace, _ error: RecordError, key: BlobKey?, _ bytes: [UInt8],
    of store: StoreCore
  ) {
    self.path = path
    packed = place
    self.key = key
    extendedData = nil
    fileSize = Int64(bytes.count)
    headerBytes = []
    storedHeader = nil
    damage = error
    state = RecordState(error)
    expiry = nil
    payloadKind = .unknown
    facts = RecordFacts(fileSize: fileSize)
    now = store.configuration.now()
  }
}

extension OpenFile {
  /// The file's beginning, at most `count` bytes.
  fileprivate borrowing func bytes(atMost count: Int) throws -> [UInt8] {
    try unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, readCount in
      readCount = try unsafe read(into: UnsafeMutableRawBufferPointer(buffer), at: 0)
    }
  }
}

// MARK: - Verdicts

extension RecordInspection {
  /// Judges one field, independent of the others.
  ///
  /// - Returns: nil where the file is too short to have the field.
  public func verdict(on field: RecordField) -> Verdict? {
    guard let stored = storedHeader else { return nil }
    switch field {
    case .magic: return verdict(.magic)
    case .headerSize: return verdict(.headerSize)
    case .crc: return verdict(.headerCRC)
    case .flags:
      let verdict = verdict(.knownFlags)
      return verdict == .ok ? self.verdict(.complete) : verdict
    case .payloadSizeBytes: return verdict(.payloadSize)
    case .reserved2: return stored.flags.contains(.keyDigest) ? verdict(.keyDigest) : zero(stored.reserved2)
    case .reserved3:
      guard stored.flags.contains(.payloadChecksum) else { return zero(stored.reserved3) }
      return payloadChecksum == nil ? .unusual("not compared with the payload") : verdict(.payloadChecksum)
    case .updateTimeSec:
      return stored.updateTime > UInt64(clamping: now.seconds) ? .unusual("in the future") : .ok
    case .reserved1: return zero(stored.reserved1)
    case .reserved4: return stored.flags.contains(.hasExtension) ? verdict(.wholeExtension) : zero(stored.reserved4)
    case .refCount, .ttl: return .ok
    }
  }

  /// - Returns: nil where the file is too short to have a header.
  private func verdict(_ rule: RecordRule) -> Verdict? {
    storedHeader.map { rule.breach(by: $0, facts).map { .broken($0) } ?? .ok }
  }

  private func zero(_ value: some UnsignedInteger) -> Verdict {
    value == 0 ? .ok : .unusual("reserved, not 0")
  }
}
