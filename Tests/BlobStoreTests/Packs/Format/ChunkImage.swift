import BlobRecord
import TestSupport

@testable import BlobStore

/// A chunk in memory, which is filled record by record as a writer of packs does.
struct ChunkImage {
  /// The fields of a written record.
  struct Stored: Hashable {
    var name: [UInt8]
    var payload: [UInt8]
    var tail: [UInt8] = []
    var sequence: UInt64 = 1
    var refCount: UInt32 = 0
    var ttl: UInt64 = 60
    var updateTime: UInt64 = 1_700_000_000

    var fileHeader: RecordHeader {
      var header = RecordHeader(
        refCount: refCount, ttl: ttl, updateTime: updateTime, payloadSize: UInt64(payload.count))
      header.payloadChecksum = CRC32.checksum(of: payload)
      header.keyDigest = NameDigest.digest(ofFileName: name.span)
      if !tail.isEmpty { header.extensionEnd = UInt32(tail.count) }
      return header
    }

    var digest: UInt64 { NameDigest.digest(ofFileName: name.span) }

    var packedHeader: PackedHeader? {
      PackedHeader(fileHeader, nameDigest: digest, nameByteCount: name.count, sequence: sequence)
    }

    /// Returns the whole record for an address, including padding, or `nil` if it cannot be packed.
    func bytes(at address: PackAddress, salt: UInt32) -> [UInt8]? {
      guard let header = packedHeader else { return nil }
      var bytes = [UInt8](repeating: 0, count: max(64, 40 + name.count))
      do {
        var span = bytes.mutableSpan
        var raw = span.mutableBytes
        header.encode(name: name.span.bytes, at: address, salt: salt, into: &raw)
      }
      bytes.removeLast(bytes.count - 40 - name.count)
      bytes += payload + tail
      bytes += [UInt8](repeating: 0, count: max(0, 64 - bytes.count))
      return bytes
    }
  }

  var bytes: [UInt8]
  var salts: [UInt32?]
  let pack: Int
  let chunk: Int
  private(set) var end = 0

  init(
    pack: Int = 3, chunk: Int = 5, byteCount: Int = PackLayout.chunkByteCount,
    salts: [UInt32?] = [0x1111_1111, 0x2222_2222, 0x3333_3333, 0x4444_4444]
  ) {
    (self.pack, self.chunk, self.salts) = (pack, chunk, salts)
    bytes = [UInt8](repeating: 0, count: byteCount)
  }

  var chunkSalts: ChunkSalts {
    // A sector without a salt contains only zeros.
    let words = salts.map { $0.map(PackLayout.saltWord) ?? 0 }
    return ChunkSalts(words: SIMD4(words[0], words[1], words[2], words[3]))
  }

  func address(_ offset: Int) -> PackAddress { PackAddress(pack: pack, chunk: chunk, offset: offset) }

  /// Writes a record after the last one.
  ///
  /// - Returns: The address of the record, or `nil` if the chunk has no room.
  @discardableResult mutating func append(_ stored: Stored) -> PackAddress? {
    guard let header = stored.packedHeader, let offset = PackLayout.place(after: end, byteCount: header.byteCount),
      offset + header.byteCount <= bytes.count
    else { return nil }
    end = offset + header.byteCount
    write(stored, at: offset)
    return address(offset)
  }

  mutating func write(_ stored: Stored, at offset: Int) {
    let salt = salts[offset / PackLayout.quarterByteCount] ?? 0
    guard let record = stored.bytes(at: address(offset), salt: salt) else { return }
    bytes.replaceSubrange(offset..<(offset + record.count), with: record)
  }

  /// Returns all records that a walk finds.
  func walked(firstBytes: Int? = nil) -> [PackedRecord] {
    let bytes = Array(self.bytes.prefix(firstBytes ?? .max))
    return Self.walk(bytes, pack: pack, chunk: chunk, salts: chunkSalts)
  }

  static func walk(_ bytes: [UInt8], pack: Int = 3, chunk: Int = 5, salts: ChunkSalts) -> [PackedRecord] {
    var walk = ChunkWalk(pack: pack, chunk: chunk, salts: salts)
    var found: [PackedRecord] = []
    while let record = walk.next(in: bytes.span.bytes) { found.append(record) }
    return found
  }

  /// Returns the fields of a found record.
  func stored(_ record: PackedRecord) -> Stored {
    let header = record.header
    return Stored(
      name: Array(bytes[record.nameRange]), payload: Array(bytes[record.payloadRange]),
      tail: Array(bytes[record.extensionRange]), sequence: header.sequence, refCount: header.refCount,
      ttl: header.ttl, updateTime: header.updateTime)
  }
}

extension ChunkImage.Stored {
  /// Returns a record with random fields, most of them short.
  static func random(using generator: inout SeededGenerator) -> Self {
    let isLarge = generator.next() % 64 == 0
    let tail = generator.next() % 4 == 0 ? Int.random(in: 16...200, using: &generator) : 0
    return Self(
      name: generator.bytes(Int.random(in: 1...(isLarge ? 255 : 40), using: &generator)),
      payload: generator.bytes(Int.random(in: 0...(isLarge ? 32_000 : 700), using: &generator)),
      tail: generator.bytes(tail), sequence: generator.next() >> 8,
      refCount: UInt32.random(in: 0...2, using: &generator),
      ttl: generator.next() >> 25, updateTime: generator.next() >> 25)
  }
}

extension PackedHeader {
  func isPayloadSound(in bytes: [UInt8]) -> Bool { isPayloadSound(in: bytes.span.bytes) }
}

extension PackedRecord {
  func hasSoundPayload(in bytes: [UInt8]) -> Bool { hasSoundPayload(in: bytes.span.bytes) }
  func nameDigest(in bytes: [UInt8]) -> UInt64 { nameDigest(in: bytes.span.bytes) }
}

extension PackRebuild {
  mutating func add(_ record: PackedRecord, isDead: Bool, in bytes: [UInt8]) {
    add(record, isDead: isDead, in: bytes.span.bytes)
  }
}
