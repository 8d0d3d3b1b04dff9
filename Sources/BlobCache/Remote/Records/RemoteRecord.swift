public import BlobRecord
internal import BlobStore

/// A record that is sent to a remote engine: the bytes of a record's file, which any reader of the format can read.
///
/// It has no locks, because these apply to one machine. It has both checksums and its own time to live.
public struct RemoteRecord: Sendable {
  /// The 64 bytes of the header.
  public let head: Data
  /// The extension and the seal after the payload; empty if the record has neither.
  public let tail: Data
  /// The last second in which the record is live. An engine may drop it later.
  public let expiry: UnixTime
  /// The CRC-32 of IEEE 802.3 of all bytes.
  public let checksum: UInt32
  /// The size of the payload in bytes.
  public let payloadByteCount: Int
  let payload: Payload
  let payloadChecksum: UInt32

  enum Payload: Sendable {
    case memory(Data)
    case file(RemotePayloadFile)
  }

  /// The size of the record in bytes.
  public var byteCount: Int { head.count + payloadByteCount + tail.count }

  /// All bytes in order, in pieces of a mebibyte, or in larger ones if they are in memory.
  ///
  /// It can be iterated more than once. If the payload's file is damaged, it throws an error before the last piece.
  public var pieces: RemoteRecordPieces { RemoteRecordPieces(record: self) }

  /// All bytes in one piece if the payload is in memory, or `nil` if it is in a file.
  ///
  /// - Complexity: O(*n*) for *n* bytes, which are copied.
  public var bytes: Data? {
    guard case .memory(let payload) = payload else { return nil }
    var bytes = Data(capacity: byteCount)
    for piece in [head, payload, tail] { bytes.append(piece) }
    return bytes
  }

  /// Returns all bytes in one piece, and reads the payload's file if necessary.
  ///
  /// - Throws: The errors of reading the payload's file.
  public func collected() async throws -> Data {
    if let bytes { return bytes }
    var bytes = Data(capacity: byteCount)
    for try await piece in pieces { bytes.append(piece) }
    return bytes
  }
}

extension RemoteRecord {
  /// - Parameter defaultExpiration: The time to live in seconds of a directory's record with ttl 0.
  init(_ blob: Blob, defaultExpiration: Int64, to place: RemotePlace, sealedBy sealKey: RemoteSealKey? = nil) {
    let checksum = blob.header.payloadChecksum ?? CRC32.checksum(of: blob.payload.bytes)
    let frame = Frame(
      blob.header, Int64(blob.payload.count), checksum, blob.extendedData, defaultExpiration, to: place, sealKey)
    var seal = frame.seal
    seal?.update(blob.payload.bytes)
    self.init(frame, .memory(blob.payload), seal)
  }

  /// Creates a record from a file, which is read for the pieces, and now to compute a seal or a missing checksum.
  init(
    _ file: RemotePayloadFile, defaultExpiration: Int64, to place: RemotePlace, sealedBy sealKey: RemoteSealKey?
  ) async throws {
    let reader = file.reader
    let checksum = if let known = reader.header.payloadChecksum { known } else { try await file.checksum() }
    let frame = Frame(
      reader.header, reader.byteCount, checksum, reader.extendedData, defaultExpiration, to: place, sealKey)
    var seal = frame.seal
    if let begun = seal { seal = try await file.sealed(begun) }
    self.init(frame, .file(file), seal)
  }

  /// The parts of a record around its payload.
  private struct Frame {
    let header: RecordHeader
    let head: Data
    let tail: Data
    let expiry: UnixTime
    var seal: RecordSeal?

    init(
      _ header: RecordHeader, _ byteCount: Int64, _ checksum: UInt32, _ extendedData: Data?, _ defaultExpiration: Int64,
      to place: RemotePlace, _ sealKey: RemoteSealKey?
    ) {
      var header = header
      header.refCount = 0
      if header.ttl == 0 { header.ttl = UInt64(clamping: max(1, defaultExpiration)) }
      header.payloadSize = UInt64(clamping: byteCount)
      header.payloadChecksum = checksum
      header.keyDigest = place.digest
      let kept = RecordExtension(key: place.keptKey, data: extendedData.map(Array.init) ?? [])
      let tail = kept.key == nil && kept.data.isEmpty ? [] : kept.encoded
      header.extensionEnd = tail.isEmpty ? nil : UInt32(tail.count)
      self.header = header
      head = header.withEncodedBytes { bytes in unsafe bytes.withUnsafeBytes { unsafe Data($0) } }
      self.tail = Data(tail)
      expiry = header.expiry(defaultExpiration: defaultExpiration)
      seal = sealKey.map { RecordSeal($0, of: place.name) }
      seal?.update(head.bytes)
    }
  }

  private init(_ frame: Frame, _ payload: Payload, _ seal: RecordSeal?) {
    var (tail, seal) = (frame.tail, seal)
    seal?.update(tail.bytes)
    if let seal { tail.append(seal.bytes) }
    let byteCount = Int64(clamping: frame.header.payloadSize)
    let start = CRC32.combined(
      CRC32.checksum(of: frame.head.bytes), frame.header.payloadChecksum ?? 0, byteCount: byteCount)
    checksum = CRC32.combined(start, CRC32.checksum(of: tail.bytes), byteCount: Int64(tail.count))
    head = frame.head
    self.tail = tail
    self.payload = payload
    payloadByteCount = Int(clamping: byteCount)
    payloadChecksum = frame.header.payloadChecksum ?? 0
    expiry = frame.expiry
  }
}

/// The bytes of a record that is sent to a remote engine.
public struct RemoteRecordPieces: AsyncSequence, Sendable {
  let record: RemoteRecord

  public func makeAsyncIterator() -> Iterator { Iterator(record: record) }

  public struct Iterator: AsyncIteratorProtocol, Sendable {
    private static let pieceSize: Int64 = 1 << 20

    private enum Step {
      case head, tail, end
      case payload(from: Int64)
    }

    private let record: RemoteRecord
    private var step = Step.head
    private var checksum = CRC32()

    init(record: RemoteRecord) { self.record = record }

    /// Returns the next piece, or `nil` at the end and after an error.
    ///
    /// - Throws: `BlobStoreError` with the code `fileSystem`, or with `damaged` before the last bytes of a payload
    ///   with a wrong checksum; `CancellationError`.
    public mutating func next() async throws -> Data? {
      while true {
        switch step {
        case .head:
          step = .payload(from: 0)
          return record.head
        case .payload(let offset):
          // The iteration ends after an error.
          step = .end
          let piece = try await payload(from: offset)
          step = piece.isEmpty ? .tail : .payload(from: offset + Int64(piece.count))
          if !piece.isEmpty { return piece }
        case .tail:
          step = .end
          if !record.tail.isEmpty { return record.tail }
        case .end: return nil
        }
      }
    }

    private mutating func payload(from offset: Int64) async throws -> Data {
      switch record.payload {
      case .memory(let payload): return offset == 0 ? payload : Data()
      case .file(let file):
        let end = Swift.min(offset + Self.pieceSize, file.reader.byteCount)
        guard offset < end else { return Data() }
        let piece = try await file.lane.run { [reader = file.reader] _ in try reader.read(offset..<end) }
        checksum.update(piece.bytes)
        if end == file.reader.byteCount, let wanted = file.reader.header.payloadChecksum, wanted != checksum.value {
          // This throws the store's own error, and applies its rule for damaged files.
          try await file.lane.run { [reader = file.reader] _ in try reader.verify() }
        }
        return piece
      }
    }
  }
}

/// A payload that is read from its file while it is uploaded. The open file survives a replacement or removal.
struct RemotePayloadFile: Sendable {
  let reader: BlobReader
  let lane: Lane

  func checksum() async throws -> UInt32 {
    try await lane.run { [reader] _ in
      var checksum = CRC32()
      try reader.forEachPiece { checksum.update($0) }
      return checksum.value
    }
  }

  func sealed(_ seal: RecordSeal) async throws -> RecordSeal {
    try await lane.run { [reader] _ in
      var seal = seal
      try reader.forEachPiece { seal.update($0) }
      return seal
    }
  }
}
