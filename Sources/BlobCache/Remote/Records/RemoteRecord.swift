public import BlobRecord
internal import BlobStore

/// A record on its way to a remote engine: the bytes of a record's file, as any reader of the format takes them.
///
/// It has no locks, which are promises of one machine. It has both checksums, and a time to live of its own.
public struct RemoteRecord: Sendable {
  /// The 64 bytes of the header.
  public let head: Data
  /// What follows the payload: the extension, and the seal; empty for neither.
  public let tail: Data
  /// The last second in which the record is live. An engine may drop it later.
  public let expiry: UnixTime
  /// The CRC-32 of IEEE 802.3 of all bytes.
  public let checksum: UInt32
  /// Bytes of the payload alone.
  public let payloadByteCount: Int
  let payload: Payload
  /// The CRC-32 of the payload alone.
  let payloadChecksum: UInt32

  /// Where the bytes between head and tail come from.
  enum Payload: Sendable {
    case memory(Data)
    case file(RemotePayloadFile)
  }

  /// Bytes in all.
  public var byteCount: Int { head.count + payloadByteCount + tail.count }

  /// All bytes in order, in pieces of a mebibyte, or as they lie in memory. Each iteration begins anew.
  ///
  /// The last one ends with an error where the payload's file turns out to be damaged.
  public var pieces: RemoteRecordPieces { RemoteRecordPieces(record: self) }

  /// All bytes in one piece, where they are in memory anyway; nil for a payload in a file.
  ///
  /// - Complexity: a copy.
  public var bytes: Data? {
    guard case .memory(let payload) = payload else { return nil }
    var bytes = Data(capacity: byteCount)
    for piece in [head, payload, tail] { bytes.append(piece) }
    return bytes
  }

  /// All bytes in one piece, wherever they come from.
  ///
  /// - Throws: what reading the payload's file throws.
  public func collected() async throws -> Data {
    if let bytes { return bytes }
    var bytes = Data(capacity: byteCount)
    for try await piece in pieces { bytes.append(piece) }
    return bytes
  }
}

extension RemoteRecord {
  /// - Parameters:
  ///   - blob: what lies in the directory.
  ///   - defaultExpiration: the seconds to live that a ttl of 0 means there.
  ///   - place: where the record goes.
  ///   - sealKey: nil for no seal.
  init(_ blob: Blob, defaultExpiration: Int64, to place: RemotePlace, sealedBy sealKey: RemoteSealKey? = nil) {
    let checksum = blob.header.payloadChecksum ?? CRC32.checksum(of: blob.payload.bytes)
    let frame = Frame(
      blob.header, Int64(blob.payload.count), checksum, blob.extendedData, defaultExpiration, to: place, sealKey)
    var seal = frame.seal
    seal?.update(blob.payload.bytes)
    self.init(frame, .memory(blob.payload), seal)
  }

  /// - Parameter file: what lies in the directory, and is read when its bytes are asked for; and before, for a seal and for a
  ///   checksum that its header lacks.
  /// - Throws: what reading it throws.
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

  /// What lies around a payload.
  private struct Frame {
    let header: RecordHeader
    let head: Data
    let tail: Data
    let expiry: UnixTime
    /// With the head in it.
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

  /// - Parameter seal: with head and payload in it.
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

/// The bytes of a record on its way to a remote engine.
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
    /// Of what was read so far.
    private var checksum = CRC32()

    init(record: RemoteRecord) { self.record = record }

    /// - Returns: nil at the end, and after an error.
    /// - Throws: `BlobStoreError` `fileSystem`, or `damaged` before the last bytes of a payload with a wrong checksum;
    ///   `CancellationError`.
    public mutating func next() async throws -> Data? {
      while true {
        switch step {
        case .head:
          step = .payload(from: 0)
          return record.head
        case .payload(let offset):
          // An error is the last.
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
          // The store's own message, and its rule for damaged files.
          try await file.lane.run { [reader = file.reader] _ in try reader.verify() }
        }
        return piece
      }
    }
  }
}

/// A payload that is read from its file while it goes to a remote engine.
///
/// The file stays open, so a replacement or a removal takes nothing from it.
struct RemotePayloadFile: Sendable {
  let reader: BlobReader
  /// Whose threads read it.
  let lane: Lane

  /// The checksum of a payload whose header has none.
  func checksum() async throws -> UInt32 {
    try await lane.run { [reader] _ in
      var checksum = CRC32()
      try reader.forEachPiece { checksum.update($0) }
      return checksum.value
    }
  }

  /// A seal with the payload in it.
  func sealed(_ seal: RecordSeal) async throws -> RecordSeal {
    try await lane.run { [reader] _ in
      var seal = seal
      try reader.forEachPiece { seal.update($0) }
      return seal
    }
  }
}
