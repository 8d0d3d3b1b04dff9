import BlobRecord
import TestSupport
import Testing

@testable import BlobStore

/// Spec/PackFormat.md 5: the records that a walk finds in the bytes of a chunk.
@Suite struct ChunkWalkTests {
  typealias Stored = ChunkImage.Stored

  static func record(_ name: String, _ payload: [UInt8] = [1, 2, 3], sequence: UInt64 = 1) -> Stored {
    Stored(name: Array(name.utf8), payload: payload, sequence: sequence)
  }

  @Test func anEmptyChunkHasNoRecords() {
    #expect(ChunkImage().walked().isEmpty)
    #expect(ChunkImage(byteCount: 0).walked().isEmpty)
  }

  /// Random records, some with a damaged header or name, and some incomplete.
  @Test(arguments: 0..<4) func theRecordsFoundAreThoseOfTheModel(number: Int) {
    let seed = SeededGenerator.announcedSeed(for: "theRecordsFoundAreThoseOfTheModel")
    var generator = SeededGenerator(seed: seed, number)
    var image = ChunkImage(salts: (0..<4).map { _ in UInt32(truncatingIfNeeded: generator.next()) })
    var model: [(PackAddress, Stored)] = []
    while true {
      let stored = Stored.random(using: &generator)
      let address = image.append(stored)
      guard let address else { break }
      guard generator.next() % 8 == 0 else {
        model.append((address, stored))
        continue
      }
      let place = address.offset + Int.random(in: 0..<(40 + stored.name.count), using: &generator)
      image.bytes[place] ^= UInt8(truncatingIfNeeded: generator.next() | 1)
    }
    let found = image.walked()
    #expect(found.map(\.address) == model.map(\.0))
    #expect(found.map(image.stored) == model.map(\.1))
    #expect(found.allSatisfy { $0.hasSoundPayload(in: image.bytes) })
    #expect(found.map { $0.nameDigest(in: image.bytes) } == model.map(\.1.digest))
  }

  @Test func aRecordOfWhichBytesAreMissingIsNotFound() {
    var image = ChunkImage(byteCount: 4096)
    image.append(Self.record("first"))
    let second = image.append(Self.record("second", [UInt8](repeating: 7, count: 100)))?.offset ?? 0
    for count in 0...image.end {
      let expected = count >= image.end ? 2 : count >= 64 ? 1 : 0
      #expect(image.walked(firstBytes: count).count == expected, "\(count) bytes")
    }
    #expect(second == 64)
  }

  @Test func bytesBehindTheChunkAreNotLookedAt() {
    var image = ChunkImage()
    while image.append(Self.record("a", [UInt8](repeating: 0, count: 32_000))) != nil {}
    let count = image.walked().count
    image.bytes += image.bytes
    #expect(image.walked().count == count)
  }

  // MARK: Gaps

  @Test(arguments: [0, 1, 2, 3]) func theRecordsBehindADamagedOneAreFound(place: Int) {
    var image = ChunkImage(byteCount: 8192)
    let addresses = (0..<4).compactMap { image.append(Self.record("name-\($0)", [UInt8](repeating: 1, count: 300))) }
    image.bytes[addresses[place].offset + 5] ^= 1
    #expect(image.walked().map(\.address) == addresses.filter { $0 != addresses[place] })
  }

  /// A writer that was killed leaves its reserved room empty.
  @Test(arguments: Array(stride(from: 64, through: 1200, by: 8))) func aGapOfAnySizeIsPassedOver(gap: Int) {
    var image = ChunkImage(byteCount: 8192)
    image.append(Self.record("before"))
    let offset = PackLayout.firstPlace(from: image.end + gap)
    image.write(Self.record("behind"), at: offset)
    #expect(image.walked().map(\.address.offset) == [0, offset])
  }

  // MARK: Records in payloads

  @Test func copiesOfRecordsInAPayloadAreNoRecords() throws {
    var image = ChunkImage(byteCount: 16_384)
    let first = Self.record("first", [UInt8](repeating: 5, count: 40))
    image.append(first)
    let copy = try #require(first.bytes(at: image.address(0), salt: 0x1111_1111))
    let carrier = PackLayout.firstPlace(from: image.end)
    image.append(Self.record("carrier", copy + copy + copy))
    image.append(Self.record("behind"))
    #expect(image.walked().count == 3)
    // The walk then examines each place in the payload.
    image.bytes[carrier + 8] ^= 1
    #expect(image.walked().map { image.stored($0).name } == [Array("first".utf8), Array("behind".utf8)])
  }

  /// Callers do not know the salt. Even a guessed salt does not expose a forged record within an intact one.
  @Test func aForgedRecordInASoundOneIsPassedOver() throws {
    var image = ChunkImage(byteCount: 16_384)
    let payloadStart = 40 + 7
    let inner = PackLayout.firstPlace(from: payloadStart)
    let forged = try #require(Self.record("forged").bytes(at: image.address(inner), salt: 0x1111_1111))
    let payload = [UInt8](repeating: 0, count: inner - payloadStart) + forged
    image.append(Self.record("carrier", payload))
    #expect(image.walked().map { image.stored($0).name } == [Array("carrier".utf8)])
  }

  // MARK: Salts

  @Test func recordsOfAFormerLifeAreNotFound() {
    var image = ChunkImage(byteCount: 65_536)
    for number in 0..<100 { image.append(Self.record("old-\(number)")) }
    #expect(image.walked().count == 100)
    image.salts[0] = 7
    #expect(image.walked().isEmpty)
    image.write(Self.record("new"), at: 0)
    #expect(image.walked().map { image.stored($0).name } == [Array("new".utf8)])
  }

  /// A record belongs to the quarter in which it begins, even if it ends in the next one.
  @Test(arguments: 0..<4) func aQuarterWithoutASaltHasNoRecords(quarter: Int) {
    var image = ChunkImage()
    while image.append(Self.record("n", [UInt8](repeating: 3, count: 30_000))) != nil {}
    let all = image.walked().map(\.address)
    image.salts[quarter] = nil
    #expect(image.walked().map(\.address) == all.filter { $0.quarter != quarter })
  }

  // MARK: Hostile bytes

  /// Checks that all ranges are within the bytes, and that records are ascending without overlaps, for any bytes.
  static func checkBounds(_ bytes: [UInt8], _ found: [PackedRecord]) {
    var end = 0
    for record in found {
      #expect(record.range.lowerBound >= end && record.range.upperBound <= bytes.count)
      #expect(
        record.range.lowerBound <= record.nameRange.lowerBound
          && record.nameRange.upperBound == record.payloadRange.lowerBound)
      #expect(record.payloadRange.upperBound == record.extensionRange.lowerBound)
      #expect(record.extensionRange.upperBound <= record.range.upperBound)
      _ = record.hasSoundPayload(in: bytes)
      _ = record.nameDigest(in: bytes)
      end = record.range.upperBound
    }
  }

  /// Headers with a valid CRC and random fields.
  @Test(arguments: 0..<4) func noBytesMakeAWalkTrap(number: Int) {
    let seed = SeededGenerator.announcedSeed(for: "noBytesMakeAWalkTrap")
    var generator = SeededGenerator(seed: seed, number)
    var image = ChunkImage(byteCount: 32_768)
    image.bytes = generator.bytes(image.bytes.count)
    let salt: UInt32 = 0x1111_1111
    var offset = 0
    while offset + 300 < image.bytes.count {
      var header = generator.bytes(300)
      header.replaceSubrange(36..<40, with: Array("PREC".utf8))
      if generator.next() % 2 == 0 { header[31] = 0 }
      if generator.next() % 2 == 0 { (header[23], header[29], header[30]) = (6, 0, 0) }
      if generator.next() % 2 == 0 { header[22] = 0 }
      PackedHeaderTests.seal(&header, at: image.address(offset), salt: salt)
      image.bytes.replaceSubrange(offset..<(offset + 300), with: header)
      offset += Int.random(in: 1...40, using: &generator) * 8
    }
    for count in [image.bytes.count, image.bytes.count - 1, 1000, 63, 64, 65] {
      Self.checkBounds(Array(image.bytes.prefix(count)), image.walked(firstBytes: count))
    }
  }

  /// With a header at each multiple of eight bytes, the work for each of them is bounded.
  @Test func aChunkFullOfMarksIsWalkedInLinearTime() {
    let words = [UInt8](repeating: 6, count: 4) + Array("PREC".utf8)
    let bytes = (0..<(PackLayout.chunkByteCount / 8)).flatMap { _ in words }
    #expect(ChunkImage.walk(bytes, salts: ChunkImage().chunkSalts).isEmpty)
  }
}
