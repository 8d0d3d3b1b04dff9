public import BlobRecord
internal import Posix
public import SystemPackage

/// Everything that can be said of one record file: each field of its header judged by itself, and the payload.
///
/// For people who look into a cache. What a load would answer is the first broken rule alone, `damage`.
public struct RecordInspection: Sendable {
  public let path: FilePath
  /// nil where the file name does not tell it.
  public let key: BlobKey?
  /// Bytes, header included.
  public let fileSize: Int64
  /// The first 64 bytes, or as many as there are.
  public let headerBytes: [UInt8]
  /// What they hold; nil where there are fewer than 64.
  public let storedHeader: StoredHeader?
  /// The first broken rule, that of the payload included, whatever the record's age.
  public let damage: RecordError?
  public let state: RecordState
  /// When an unlocked record expires; nil where the header is not sound.
  public let expiry: UnixTime?
  /// The CRC-32 of the payload as it is; nil where the header carries none to compare it with, is not sound, or states
  /// another size or more than `maximumPayload`.
  public let payloadChecksum: UInt32?
  /// A guess.
  public let payloadKind: PayloadKind

  private let fileNameDigest: UInt64
  private let now: UnixTime

  /// What is to be said of one field.
  public enum Verdict: Hashable, Sendable {
    case ok
    /// No rule forbids it, but no program of ours writes it.
    case unusual(String)
    case broken(RecordError)
  }
}

extension BlobStore {
  /// Inspects a record file, which may lie anywhere: a copy of one need not be in a cache. Its key and its age are
  /// judged by this store's naming, default expiration and clock. Nothing is touched.
  ///
  /// - Throws: `foreignFile` for what is no regular file; `fileSystem`.
  /// - Complexity: reads the whole file, 256 KiB at a time, where its payload has a checksum.
  public func inspect(_ path: FilePath) throws(BlobStoreError) -> RecordInspection {
    try reporting("inspect") {
      let inspection = try RecordInspection(path, of: core)
      // A header that is changed in place may be seen half done.
      return inspection.damage == nil ? inspection : try RecordInspection(path, of: core)
    }
  }
}

extension RecordInspection {
  fileprivate init(_ path: FilePath, of store: StoreCore) throws {
    let name = path.lastComponent?.string ?? path.string
    let parent = path.removingLastComponent()
    guard let directory = try Directory(at: parent.isEmpty ? "." : parent, files: Files()) else {
      throw FileError(.open, Location(path), .noSuchFileOrDirectory)
    }
    switch try directory.openFile(name, for: .read) {
    case .absent: throw FileError(.open, Location(path), .noSuchFileOrDirectory)
    case .notRegular: throw BlobStoreError(.foreignFile, "this is no regular file", path: path)
    case .regular(let file, let status): try self.init(path, named: name, file, status, of: store)
    }
  }

  private init(
    _ path: FilePath, named name: String, _ file: borrowing OpenFile, _ status: Stat, of store: StoreCore
  ) throws {
    self.path = path
    key = store.configuration.layout.naming.key(ofFileName: name)
    fileSize = status.size
    fileNameDigest = KeyDigest.digest(ofFileName: name)
    now = store.configuration.now()

    let start = try file.bytes(atMost: RecordHeader.byteCount + PayloadKind.examinedByteCount)
    let head = Array(start.prefix(RecordHeader.byteCount))
    let payloadStart = Array(start.dropFirst(RecordHeader.byteCount))
    headerBytes = head
    payloadKind = unsafe PayloadKind(guessedFrom: payloadStart.span.bytes)

    var storedHeader: StoredHeader?
    var header: RecordHeader?
    var payloadChecksum: UInt32?
    var damage: RecordError?
    do {
      let stored = try unsafe StoredHeader(decoding: head.span.bytes)
      storedHeader = stored
      let sound = try stored.validated()
      header = sound
      try sound.validateComplete()
      try sound.validate(payloadByteCount: status.size - Int64(RecordHeader.byteCount))
      // A file may claim to be endless; what no load would return is not read.
      if sound.payloadChecksum != nil, sound.payloadSize <= store.configuration.maximumPayload {
        let checksum = try file.payloadChecksum().checksum
        payloadChecksum = checksum
        try sound.validate(payloadCRC: checksum)
      }
      try sound.validate(keyDigest: fileNameDigest)
    } catch let error as RecordError {
      damage = error
    }
    self.storedHeader = storedHeader
    self.payloadChecksum = payloadChecksum
    self.damage = damage
    expiry = header?.expiry(defaultExpiration: store.defaultExpiration)
    if let header, damage == nil {
      state = header.isLocked ? .locked : store.isLive(header, at: now) ? .live : .expired
    } else {
      state = .damaged
    }
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
  /// Judges one field, whatever the others hold.
  ///
  /// - Returns: nil where the file is too short to have the field.
  public func verdict(on field: RecordField) -> Verdict? {
    guard let stored = storedHeader else { return nil }
    switch field {
    case .magic:
      return stored.magic == RecordHeader.magic ? .ok : .broken(.magicMismatch(found: stored.magic))
    case .headerSize:
      let isRight = stored.headerSize == UInt32(RecordHeader.byteCount)
      return isRight ? .ok : .broken(.wrongHeaderSize(found: stored.headerSize))
    case .crc:
      let isRight = stored.crc == stored.computedCRC
      return isRight ? .ok : .broken(.invalidHeaderCRC(stated: stored.crc, computed: stored.computedCRC))
    case .flags:
      guard RecordFlags.known.isSuperset(of: stored.flags) else { return .broken(.unsupportedFlags(stored.flags)) }
      return stored.flags.contains(.streamIncomplete) ? .broken(.recordIsStreamAndBusy) : .ok
    case .payloadSizeBytes:
      let found = fileSize - Int64(RecordHeader.byteCount)
      let isRight = UInt64(exactly: found) == stored.payloadSize
      return isRight ? .ok : .broken(.wrongPayloadSize(stated: stored.payloadSize, found: found))
    case .reserved2:
      guard stored.flags.contains(.keyDigest) else { return zero(stored.reserved2) }
      let isRight = stored.reserved2 == fileNameDigest
      return isRight ? .ok : .broken(.keyMismatch(stated: stored.reserved2, expected: fileNameDigest))
    case .reserved3:
      guard stored.flags.contains(.payloadChecksum) else { return zero(stored.reserved3) }
      guard let payloadChecksum else { return .unusual("not compared with the payload") }
      let isRight = stored.reserved3 == payloadChecksum
      return isRight ? .ok : .broken(.payloadChecksumMismatch(stated: stored.reserved3, computed: payloadChecksum))
    case .updateTimeSec:
      return stored.updateTime > UInt64(clamping: now.seconds) ? .unusual("in the future") : .ok
    case .reserved1: return zero(stored.reserved1)
    case .reserved4: return zero(stored.reserved4)
    case .refCount, .ttl: return .ok
    }
  }

  private func zero(_ value: some UnsignedInteger) -> Verdict {
    value == 0 ? .ok : .unusual("reserved, not 0")
  }
}
