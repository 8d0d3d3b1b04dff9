import BlobRecord
import TestSupport
import Testing

@Suite struct RecordHeaderTests {
  /// Every field has different bytes, so that swapped fields are detected.
  static let distinct = {
    var header = RecordHeader(
      refCount: 0x0B0A_0908, ttl: 0x1716_1514_1312_1110, updateTime: 0x1F1E_1D1C_1B1A_1918,
      payloadSize: 0x2726_2524_2322_2120, flags: .known, reserved2: 0x2F2E_2D2C_2B2A_2928, reserved3: 0x3332_3130,
      reserved4: 0x3736_3534)
    header.reserved1 = 0x0F0E_0D0C
    return header
  }()

  // MARK: Coding

  /// The check values in Spec/RecordFormat.md, which SPTPersistentCache computes too.
  @Test(
    arguments: [
      (0, 34151, 1488, 0, 0x262A_B509),
      (7200, 34151, 1488, 1, 0x329D_4C03),
      (64, 400, 1488, 1, 0xA459_05C7),
    ] as [(UInt64, UInt64, UInt64, UInt32, UInt32)])
  func headerCRCsAreTheReferences(ttl: UInt64, payloadSize: UInt64, time: UInt64, refCount: UInt32, crc: UInt32) {
    let header = RecordHeader(refCount: refCount, ttl: ttl, updateTime: time, payloadSize: payloadSize)
    #expect(header.crc == crc)
  }

  @Test func everyFieldLiesAtItsOffset() {
    let bytes = Self.distinct.encodedBytes
    #expect(Array(bytes[..<8]) == Array("SPTF".utf8) + [64, 0, 0, 0])
    #expect(Array(bytes[8..<56]) == Array(8..<56))
    #expect(Array(bytes[56..<60]) == [15, 0, 0, 0])
    #expect(bytes.count == RecordHeader.byteCount)
  }

  @Test func everyFieldSurvivesARoundTrip() throws {
    #expect(try RecordHeader(decoding: Self.distinct.encodedBytes) == Self.distinct)
  }

  @Test func randomHeadersSurviveARoundTrip() throws {
    let seed = SeededGenerator.announcedSeed(for: "randomHeadersSurviveARoundTrip")
    var generator = SeededGenerator(seed: seed)
    for _ in 0..<500 {
      var header = RecordHeader(
        refCount: .random(in: 0 ... .max, using: &generator), ttl: generator.next(), updateTime: generator.next(),
        payloadSize: generator.next(), flags: RecordFlags(rawValue: .random(in: 0...7, using: &generator)),
        reserved2: generator.next(), reserved3: .random(in: 0 ... .max, using: &generator),
        reserved4: .random(in: 0 ... .max, using: &generator))
      header.reserved1 = .random(in: 0 ... .max, using: &generator)
      let bytes = header.encodedBytes
      try #require(try RecordHeader(decoding: bytes) == header, "seed \(seed)")
      try #require(try RecordHeader(decoding: bytes).encodedBytes == bytes, "seed \(seed)")
    }
  }

  @Test(arguments: 0..<64) func fewerThanSixtyFourBytesAreNoHeader(byteCount: Int) {
    let bytes = Array(Self.distinct.encodedBytes.prefix(byteCount))
    #expect(throws: RecordError.notEnoughDataToGetHeader(byteCount: Int64(byteCount))) {
      try RecordHeader(decoding: bytes)
    }
  }

  @Test func whatFollowsTheHeaderIsNotLookedAt() throws {
    #expect(try RecordHeader(decoding: Self.distinct.encodedBytes + [1, 2, 3]) == Self.distinct)
  }

  @Test(arguments: 0..<16) func headersDecodeAtAnyAlignment(offset: Int) throws {
    let bytes = [UInt8](repeating: 0xAA, count: offset) + Self.distinct.encodedBytes
    let header = try RecordHeader(decoding: bytes.span.bytes.extracting(droppingFirst: offset))
    #expect(header == Self.distinct)
  }

  // MARK: Validation

  @Test func theFirstBrokenRuleIsNamed() throws {
    var bytes = Self.distinct.encodedBytes
    put(0x4654_5053 as UInt32, at: 0, in: &bytes)
    put(72 as UInt32, at: 4, in: &bytes)
    put(0x18 as UInt32, at: 56, in: &bytes)
    bytes[0] = 0x73
    func error() -> RecordError? {
      do throws(RecordError) {
        _ = try RecordHeader(decoding: bytes)
        return nil
      } catch {
        return error
      }
    }
    #expect(error() == .magicMismatch(found: 0x4654_5073))

    bytes[0] = 0x53
    let stored = try StoredHeader(decoding: bytes)
    #expect(error() == .invalidHeaderCRC(stated: stored.crc, computed: stored.computedCRC))

    sealHeader(&bytes)
    #expect(error() == .wrongHeaderSize(found: 72))

    put(64 as UInt32, at: 4, in: &bytes)
    sealHeader(&bytes)
    #expect(error() == .unsupportedFlags(RecordFlags(rawValue: 0x18)))

    put(7 as UInt32, at: 56, in: &bytes)
    sealHeader(&bytes)
    #expect(error() == nil)
  }

  @Test(arguments: 4..<32) func everyUnknownFlagIsRefused(bit: Int) {
    let flags = RecordFlags(rawValue: 1 << UInt32(bit))
    let bytes = RecordHeader(updateTime: 1488, payloadSize: 0, flags: flags).encodedBytes
    #expect(throws: RecordError.unsupportedFlags(flags)) { try RecordHeader(decoding: bytes) }
  }

  /// A CRC-32 detects every change of up to three bits in messages of this length, and the magic is checked first.
  @Test(arguments: [RecordHeader(ttl: 64, updateTime: 1488, payloadSize: 400), Self.distinct])
  func noHeaderWithOneOrTwoBitsFlippedIsSound(header: RecordHeader) {
    var bytes = header.encodedBytes
    var examined = 0
    var wrong: [String] = []
    func examine(_ first: Int, _ second: Int) {
      examined += 1
      do throws(RecordError) {
        _ = try RecordHeader(decoding: bytes.span.bytes)
        wrong.append("bits \(first) and \(second): sound")
      } catch {
        let inMagic = first < 32
        switch error {
        case .magicMismatch where inMagic, .invalidHeaderCRC where !inMagic: break
        default: wrong.append("bits \(first) and \(second): \(error)")
        }
      }
    }
    for first in 0..<512 {
      bytes[first / 8] ^= 1 << (first % 8)
      examine(first, first)
      for second in first + 1..<512 {
        bytes[second / 8] ^= 1 << (second % 8)
        examine(first, second)
        bytes[second / 8] ^= 1 << (second % 8)
      }
      bytes[first / 8] ^= 1 << (first % 8)
    }
    #expect(examined == 512 + 130_816)
    #expect(wrong.isEmpty)
  }

  // MARK: Fields that flags enable

  @Test func checksumAndDigestAreFieldsBehindFlags() {
    var header = RecordHeader(updateTime: 0, payloadSize: 0, reserved2: 1, reserved3: 2)
    #expect(header.payloadChecksum == nil && header.keyDigest == nil)

    header.payloadChecksum = 0
    header.keyDigest = 0
    #expect(header.payloadChecksum == 0 && header.keyDigest == 0)
    #expect(header.flags == [.payloadChecksum, .keyDigest])

    header.payloadChecksum = 3
    header.keyDigest = 4
    #expect(header.reserved3 == 3 && header.reserved2 == 4)

    header.payloadChecksum = nil
    header.keyDigest = nil
    #expect(header == RecordHeader(updateTime: 0, payloadSize: 0))
  }

  @Test(arguments: [0, 1, .max] as [UInt32]) func aCountAboveZeroIsALock(refCount: UInt32) {
    #expect(RecordHeader(refCount: refCount, updateTime: 0, payloadSize: 0).isLocked == (refCount > 0))
  }

  // MARK: Time

  struct Expiry: Sendable, CustomTestStringConvertible {
    var ttl: UInt64
    var updated: UInt64
    var now: Int64
    var isExpired: Bool
    var testDescription: String { "ttl \(ttl), updated \(updated), now \(now)" }
  }

  static let defaultExpiration: Int64 = 600

  @Test(
    arguments: [
      // A record expires when more than the TTL has passed.
      Expiry(ttl: 10, updated: 1000, now: 1009, isExpired: false),
      Expiry(ttl: 10, updated: 1000, now: 1010, isExpired: false),
      Expiry(ttl: 10, updated: 1000, now: 1011, isExpired: true),
      Expiry(ttl: 1, updated: 0, now: 1, isExpired: false),
      Expiry(ttl: 1, updated: 0, now: 2, isExpired: true),
      // A TTL of 0 means the default expiration, and a larger one replaces it.
      Expiry(ttl: 0, updated: 1000, now: 1600, isExpired: false),
      Expiry(ttl: 0, updated: 1000, now: 1601, isExpired: true),
      Expiry(ttl: 601, updated: 1000, now: 1601, isExpired: false),
      // A record with an update time in the future has not expired.
      Expiry(ttl: 10, updated: 5000, now: 1000, isExpired: false),
      Expiry(ttl: 0, updated: 5000, now: 0, isExpired: false),
      Expiry(ttl: 10, updated: 5000, now: .min, isExpired: false),
      Expiry(ttl: 10, updated: 0, now: -1, isExpired: false),
      // The limits of Int64.
      Expiry(ttl: 10, updated: 1000, now: .max, isExpired: true),
      Expiry(ttl: UInt64(Int64.max) - 1, updated: 0, now: .max, isExpired: true),
      Expiry(ttl: UInt64(Int64.max), updated: 0, now: .max, isExpired: false),
      Expiry(ttl: UInt64(Int64.max) + 1, updated: 0, now: .max, isExpired: false),
      Expiry(ttl: .max, updated: 0, now: .max, isExpired: false),
      Expiry(ttl: UInt64(Int64.max), updated: 1, now: .max, isExpired: false),
      Expiry(ttl: 1, updated: UInt64(Int64.max) - 2, now: .max, isExpired: true),
      Expiry(ttl: 1, updated: UInt64(Int64.max) - 1, now: .max, isExpired: false),
      Expiry(ttl: 0, updated: UInt64(Int64.max) + 1, now: .max, isExpired: false),
      Expiry(ttl: 1, updated: .max, now: .min, isExpired: false),
      Expiry(ttl: .max, updated: .max, now: .max, isExpired: false),
    ])
  func expiryIsStrictAndNeverOverflows(_ expiry: Expiry) {
    let now = UnixTime(seconds: expiry.now)
    var header = RecordHeader(ttl: expiry.ttl, updateTime: expiry.updated, payloadSize: 0)
    #expect(header.isExpired(at: now, defaultExpiration: Self.defaultExpiration) == expiry.isExpired)
    #expect(header.isLive(at: now, defaultExpiration: Self.defaultExpiration) == !expiry.isExpired)

    header.refCount = 1
    #expect(header.isExpired(at: now, defaultExpiration: Self.defaultExpiration) == expiry.isExpired)
    #expect(header.isLive(at: now, defaultExpiration: Self.defaultExpiration))
  }

  @Test func updateTimesSaturate() {
    #expect(RecordHeader(updateTime: .max, payloadSize: 0).lastUpdate == UnixTime(seconds: .max))
    #expect(RecordHeader(updateTime: 7, payloadSize: 0).lastUpdate == UnixTime(seconds: 7))
  }

  @Test func expiryIsTheLastLiveSecond() {
    let header = RecordHeader(ttl: 5, updateTime: 7, payloadSize: 0)
    #expect(header.expiry(defaultExpiration: 600) == UnixTime(seconds: 12))
    #expect(RecordHeader(updateTime: 7, payloadSize: 0).expiry(defaultExpiration: 600) == UnixTime(seconds: 607))
  }
}
