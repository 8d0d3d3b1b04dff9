import BlobRecord
import TestSupport
import Testing

@testable import BlobStore

/// Spec/PackFormat.md 2: the header of a packed record.
@Suite struct PackedHeaderTests {
  typealias Stored = ChunkImage.Stored
  static let address = PackAddress(pack: 3, chunk: 5, offset: 512)
  static let salt: UInt32 = 0xDEAD_BEEF

  static func name(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(ascii: "a") + UInt8($0 % 26) } }

  static func decode(
    _ bytes: [UInt8], at address: PackAddress = address, salt: UInt32 = salt
  ) -> PackedHeader? {
    PackedHeader(decoding: bytes.span.bytes, at: address, salt: salt)
  }

  // MARK: Encoding and decoding

  @Test(
    arguments: [1, 2, 23, 24, 25, 254, 255], [0, 1, 2, 7, 24, 128, 4095, 8192, 16_384, 32_456])
  func whatIsEncodedIsDecoded(nameByteCount: Int, payloadByteCount: Int) throws {
    let stored = Stored(
      name: Self.name(nameByteCount), payload: [UInt8](repeating: 7, count: payloadByteCount),
      sequence: UInt64(payloadByteCount) << 40 | 5, refCount: 3, ttl: 7, updateTime: 1 << 40 - 1)
    let bytes = try #require(stored.bytes(at: Self.address, salt: Self.salt))
    let header = try #require(Self.decode(bytes))
    #expect(header.recordHeader(nameDigest: stored.digest) == stored.fileHeader)
    #expect(header.sequence == stored.sequence)
    #expect(header.byteCount == bytes.count && bytes.count == max(64, 40 + nameByteCount + payloadByteCount))
    #expect(Array(bytes[header.nameRange]) == stored.name)
    #expect(Array(bytes[header.payloadRange]) == stored.payload)
    #expect(header.extensionRange.isEmpty)
    #expect(header.isPayloadSound(in: bytes))
  }

  @Test(arguments: [16, 17, 100, 4112], [0, 128]) func theExtensionComesAlong(tail: Int, payload: Int) throws {
    let stored = Stored(
      name: Self.name(24), payload: [UInt8](repeating: 7, count: payload), tail: [UInt8](repeating: 9, count: tail))
    let bytes = try #require(stored.bytes(at: Self.address, salt: Self.salt))
    let header = try #require(Self.decode(bytes))
    #expect(header.recordHeader(nameDigest: stored.digest) == stored.fileHeader)
    #expect(Array(bytes[header.extensionRange]) == stored.tail)
  }

  @Test(arguments: [0, 1, 1 << 40 - 2, UInt64(Int64.max)] as [UInt64]) func timesToLiveComeBack(ttl: UInt64) throws {
    let stored = Stored(name: [65], payload: [], sequence: 1 << 56 - 1, refCount: .max, ttl: ttl, updateTime: 0)
    let bytes = try #require(stored.bytes(at: Self.address, salt: Self.salt))
    #expect(Self.decode(bytes)?.recordHeader(nameDigest: stored.digest) == stored.fileHeader)
  }

  /// Returns a header whose fields are encoded by hand at their specified offsets.
  static func specified(
    _ stored: Stored, flags: UInt8, at address: PackAddress = address, salt: UInt32 = salt
  ) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: 40)
    put(CRC32.checksum(of: stored.payload), at: 4, in: &bytes)
    put(stored.sequence, at: 8, in: &bytes)
    bytes[15] = UInt8(truncatingIfNeeded: stored.name.count)
    put(stored.updateTime, at: 16, in: &bytes)
    put(UInt16(truncatingIfNeeded: stored.payload.count), at: 21, in: &bytes)
    bytes[23] = flags
    put(stored.ttl, at: 24, in: &bytes)
    put(UInt16(truncatingIfNeeded: stored.tail.count), at: 29, in: &bytes)
    bytes[31] = 0
    put(stored.refCount, at: 32, in: &bytes)
    bytes.replaceSubrange(36..<40, with: Array("PREC".utf8))
    bytes += stored.name + stored.payload + stored.tail
    bytes += [UInt8](repeating: 0, count: max(0, 64 - bytes.count))
    seal(&bytes, at: address, salt: salt)
    return bytes
  }

  /// Sets a valid CRC for any fields.
  static func seal(_ bytes: inout [UInt8], at address: PackAddress = address, salt: UInt32 = salt) {
    var checked = [UInt8](repeating: 0, count: 12)
    put(salt, at: 0, in: &checked)
    put(address.rawValue, at: 4, in: &checked)
    checked += bytes[4..<min(bytes.count, 40 + Int(bytes[15]))]
    put(CRC32.checksum(of: checked), at: 0, in: &bytes)
  }

  @Test(arguments: [1, 24, 255], [0, 16]) func theBytesAreThoseOfTheSpecification(name: Int, tail: Int) throws {
    let stored = Stored(
      name: Self.name(name), payload: Self.name(100), tail: [UInt8](repeating: 1, count: tail),
      sequence: 0x0012_3456_789A_BCDE, refCount: 0x0102_0304, ttl: 0x98_7654_3210, updateTime: 0x12_3456_789A)
    let bytes = try #require(stored.bytes(at: Self.address, salt: Self.salt))
    #expect(bytes == Self.specified(stored, flags: tail > 0 ? 0xE : 0x6))
  }

  // MARK: Records that stay files

  static let packable: RecordHeader = Stored(name: [65], payload: [1, 2, 3]).fileHeader
  static let unpackable: [(String, @Sendable (inout RecordHeader) -> Void)] = [
    ("stream", { $0.flags.insert(.streamIncomplete) }),
    ("later flag", { $0.flags.insert(RecordFlags(rawValue: 0x10)) }),
    ("no checksum", { $0.payloadChecksum = nil }), ("no digest", { $0.keyDigest = nil }),
    ("reserved1", { $0.reserved1 = 1 }),
    ("another name's digest", { $0.reserved2 ^= 1 }), ("reserved4 without its flag", { $0.reserved4 = 16 }),
    ("extension without an end", { $0.extensionEnd = 0 }), ("extension without a footer", { $0.extensionEnd = 15 }),
    ("large extension", { $0.extensionEnd = 40_000 }), ("update time", { $0.updateTime = 1 << 40 }),
    ("ttl", { $0.ttl = 1 << 40 }), ("ttl that stands for never", { $0.ttl = 1 << 40 - 1 }), ("ttl", { $0.ttl = .max }),
    ("large payload", { $0.payloadSize = 32_712 }), ("impossible payload", { $0.payloadSize = .max }),
  ]

  @Test(arguments: unpackable.indices) func aHeaderThatStoresDoNotWriteStaysAFile(index: Int) {
    var header = Self.packable
    let digest = header.reserved2
    #expect(PackedHeader(header, nameDigest: digest, nameByteCount: 1, sequence: 1) != nil)
    Self.unpackable[index].1(&header)
    let packed = PackedHeader(header, nameDigest: digest, nameByteCount: 1, sequence: 1)
    #expect(packed == nil, "\(Self.unpackable[index].0)")
  }

  @Test(arguments: [(0, 1), (256, 1), (-1, 1), (1, 1 << 56), (1, .max)] as [(Int, UInt64)])
  func namesAndSequencesAreBounded(nameByteCount: Int, sequence: UInt64) {
    let header = Self.packable
    #expect(
      PackedHeader(header, nameDigest: header.reserved2, nameByteCount: nameByteCount, sequence: sequence) == nil)
  }

  // MARK: Invalid records

  @Test(arguments: [1, 24, 255]) func everyFlippedBitOfHeaderAndNameIsFound(name: Int) throws {
    let stored = Stored(name: Self.name(name), payload: Self.name(20))
    let bytes = try #require(stored.bytes(at: Self.address, salt: Self.salt))
    for bit in 0..<((40 + name) * 8) {
      var damaged = bytes
      damaged[bit / 8] ^= 1 << UInt8(bit % 8)
      #expect(Self.decode(damaged) == nil, "bit \(bit)")
    }
  }

  @Test func everyFlippedBitOfThePayloadIsFound() throws {
    let stored = Stored(name: Self.name(3), payload: Self.name(60), tail: [UInt8](repeating: 0, count: 16))
    let bytes = try #require(stored.bytes(at: Self.address, salt: Self.salt))
    let header = try #require(Self.decode(bytes))
    for byte in header.payloadRange {
      var damaged = bytes
      damaged[byte] ^= 1 << UInt8(byte % 8)
      #expect(!header.isPayloadSound(in: damaged), "byte \(byte)")
    }
    for count in 0..<bytes.count { #expect(!header.isPayloadSound(in: Array(bytes.prefix(count)))) }
  }

  @Test func everyOtherSaltAndAddressIsRefused() throws {
    let bytes = try #require(Stored(name: Self.name(24), payload: [1]).bytes(at: Self.address, salt: Self.salt))
    #expect(Self.decode(bytes) != nil)
    for bit in UInt32(0)..<32 {
      #expect(Self.decode(bytes, salt: Self.salt ^ 1 << bit) == nil, "bit \(bit) of the salt")
    }
    for bit in UInt64(0)..<37 {
      let other = PackAddress(rawValue: Self.address.rawValue ^ 1 << bit)
      #expect(Self.decode(bytes, at: other) == nil, "bit \(bit) of the address")
    }
  }

  @Test(arguments: [1, 24, 255]) func aBeginningIsNoHeader(name: Int) throws {
    let bytes = try #require(
      Stored(name: Self.name(name), payload: Self.name(40)).bytes(at: Self.address, salt: Self.salt))
    for count in 0...bytes.count {
      #expect((Self.decode(Array(bytes.prefix(count))) != nil) == (count >= 40 + name), "\(count) bytes")
    }
  }

  /// Changes of a valid header, whose CRC is corrected afterwards.
  static let broken: [(String, @Sendable (inout [UInt8]) -> Void)] = [
    ("mark", { $0[36] ^= 1 }), ("byte 31", { $0[31] = 1 }), ("no name", { $0[15] = 0 }), ("flag 0x1", { $0[23] = 7 }),
    ("flag 0x10", { $0[23] = 0x16 }), ("without checksum", { $0[23] = 4 }), ("without digest", { $0[23] = 2 }),
    ("flag of an extension alone", { $0[23] = 0xE }), ("extension without flag", { $0[29] = 16 }),
    ("short extension", { ($0[23], $0[29]) = (0xE, 15) }), ("large payload", { put(UInt16(32_689), at: 21, in: &$0) }),
    ("largest payload", { put(UInt16.max, at: 21, in: &$0) }),
    (
      "largest extension",
      {
        $0[23] = 0xE
        put(UInt16.max, at: 29, in: &$0)
      }
    ),
  ]

  @Test(arguments: broken.indices) func aHeaderThatBreaksARuleIsRefused(index: Int) {
    let stored = Stored(name: Self.name(24), payload: Self.name(24))
    var bytes = Self.specified(stored, flags: 6) + [UInt8](repeating: 0, count: 70_000)
    #expect(Self.decode(bytes) != nil)
    Self.broken[index].1(&bytes)
    Self.seal(&bytes)
    #expect(Self.decode(bytes) == nil, "\(Self.broken[index].0)")
  }

  @Test(arguments: [(1_032_192 - 88, true), (1_032_192 - 80, false), (1_032_192 - 64, false), (480, false)])
  func aRecordLiesWithinItsChunkAndItsHeaderInASector(offset: Int, isTaken: Bool) {
    let address = PackAddress(rawValue: UInt64(offset / 8))
    let stored = Stored(name: Self.name(24), payload: Self.name(24))
    let bytes = Self.specified(stored, flags: 6, at: address) + [UInt8](repeating: 0, count: 100)
    #expect((Self.decode(bytes, at: address) != nil) == isTaken)
  }
}
