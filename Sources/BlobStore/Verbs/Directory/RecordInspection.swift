public import BlobRecord
internal import Posix
public import SystemPackage

/// A detailed view of a record, in which the payload and each header field are judged separately.
///
/// A packed record is shown as the file that it would be. A load would only report the first violated rule, `damage`.
public struct RecordInspection: Sendable {
  /// The path of the file or, for a packed record, of its pack.
  public let path: FilePath
  /// The location in a pack, or `nil` if the record is stored in a separate file.
  public let packed: PackedPlace?
  /// The key, or `nil` if neither the file name nor the record contains it.
  public let key: BlobKey?
  /// The extended data, or `nil` if the record was stored without.
  public let extendedData: Data?
  /// The size in bytes, including the header.
  public let fileSize: Int64
  /// The size of the payload in the file, in bytes.
  public var payloadByteCount: Int64 {
    let byteCount = max(0, fileSize - Int64(RecordHeader.byteCount))
    guard let storedHeader, storedHeader.flags.contains(.hasExtension) else { return byteCount }
    return min(byteCount, Int64(clamping: storedHeader.payloadSize))
  }
  /// The first 64 bytes, or fewer if the file is shorter.
  public let headerBytes: [UInt8]
  /// The fields of the header, or `nil` if the file has fewer than 64 bytes.
  public let storedHeader: StoredHeader?
  /// The first violated rule, including the payload's, at any age of the record.
  public let damage: RecordError?
  public let state: RecordState
  /// The time at which an unlocked record expires, or `nil` if the header is damaged.
  public let expiry: UnixTime?
  /// The CRC-32 of the actual payload, or `nil` if the header has no checksum, is damaged, or states another size or
  /// more than `limits.payload`.
  public var payloadChecksum: UInt32? { facts.payloadCRC }
  /// The kind of the payload, which is guessed from its first bytes.
  public let payloadKind: PayloadKind

  private let facts: RecordFacts
  private let now: UnixTime

  /// The verdict on one field.
  public enum Verdict: Hashable, Sendable {
    case ok
    /// A value that no rule forbids, but that this library never writes.
    case unusual(String)
    case broken(RecordError)
  }
}

extension BlobStore {
  /// Inspects a record file, which may be inside or outside a cache, without touching it.
  ///
  /// The store's naming, default expiration and clock are used to judge its key and age.
  ///
  /// - Throws: `foreignFile` if it is not a regular file; `fileSystem`.
  /// - Complexity: Reads the whole file, 256 KiB at a time, if its payload has a checksum.
  public func inspect(_ path: FilePath) throws(BlobStoreError) -> RecordInspection {
    try inspect(path, checkingUpTo: .max)
  }

  /// Inspects a record file as `inspect(_:)` does, but only verifies the checksum of payloads up to the given size.
  package func inspect(
    _ path: FilePath, checkingUpTo byteCount: UInt64
  ) throws(BlobStoreError) -> RecordInspection {
    try withErrorContext("inspect") {
      try Records(core).inspection(of: path, checkingUpTo: Records(core).inspectionLimit(byteCount))
    }
  }
}

extension Records {
  func inspectionLimit(_ byteCount: UInt64) -> UInt64 {
    min(byteCount, UInt64(clamping: core.configuration.limits.payload))
  }

  func inspection(of path: FilePath, checkingUpTo limit: UInt64) throws -> RecordInspection {
    let inspection = try RecordInspection(path, of: core, checkingUpTo: limit)
    // A header that is being changed in place may have been read half written.
    return inspection.damage == nil ? inspection : try RecordInspection(path, of: core, checkingUpTo: limit)
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

  /// Inspects a file with the given record name, which was possibly made from a packed record at `place`.
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
    // The error for fewer than 64 bytes is reported by `damage`.
    let stored = try? unsafe StoredHeader(decoding: head.span.bytes)
    storedHeader = stored
    let payloadBytes = Array(
      payloadStart.prefix(stored?.payloadRange(ofBody: payloadStart.count).count ?? payloadStart.count))
    payloadKind = unsafe PayloadKind(guessedFrom: payloadBytes.span.bytes)
    let judge = RecordJudge()
    var facts = RecordFacts(fileSize: status.size)
    // A header may claim any size, so a payload that no load would return is not read.
    if let sound = unsafe judge.judge(head.span.bytes, facts).soundHeader, sound.payloadChecksum != nil,
      sound.payloadSize <= limit
    {
      try file.readPayloadChecksum(by: sound, &facts)
      // The size on disk is judged, because missing bytes are not damage of the payload.
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

  /// Describes a packed record whose header is damaged, so that no file can be made from it.
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
  fileprivate borrowing func bytes(atMost count: Int) throws -> [UInt8] {
    try unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, readCount in
      readCount = try unsafe read(into: UnsafeMutableRawBufferPointer(buffer), at: 0)
    }
  }
}

// MARK: - Verdicts

extension RecordInspection {
  /// Judges one field independently of the others.
  ///
  /// - Returns: The verdict, or `nil` if the file is too short to contain the field.
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

  private func verdict(_ rule: RecordRule) -> Verdict? {
    storedHeader.map { rule.breach(by: $0, facts).map { .broken($0) } ?? .ok }
  }

  private func zero(_ value: some UnsignedInteger) -> Verdict {
    value == 0 ? .ok : .unusual("reserved, not 0")
  }
}
