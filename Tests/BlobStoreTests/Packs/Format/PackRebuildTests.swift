import BlobRecord
import TestSupport
import Testing

@testable import BlobStore

@Suite struct PackRebuildTests {
  typealias Stored = ChunkImage.Stored

  /// A record that a walk found, which can be added in any order.
  struct Found {
    var record: PackedRecord
    var stored: Stored
    var isDead: Bool
    var isDamaged: Bool
    var image: Int
  }

  static func rebuild(_ all: [Found], _ images: [ChunkImage]) -> PackRebuild {
    var rebuild = PackRebuild()
    for found in all {
      let bytes = images[found.image].bytes
      rebuild.add(found.record, isDead: found.isDead, in: bytes)
    }
    return rebuild
  }

  /// Versions of a few names in several chunks, some dead, and some with a damaged payload.
  @Test(arguments: 0..<8) func theNewestSoundOneThatIsNotDeadWins(number: Int) {
    let seed = SeededGenerator.announcedSeed(for: "theNewestSoundOneThatIsNotDeadWins")
    var generator = SeededGenerator(seed: seed, number)
    var images = (0..<3).map { ChunkImage(pack: $0, chunk: $0 * 7, byteCount: 65_536) }
    for sequence in UInt64(1)...200 {
      let name = "name-\(generator.next() % 20)"
      let stored = Stored(
        name: Array(name.utf8), payload: generator.bytes(Int(generator.next() % 300) + 1), sequence: sequence)
      images[Int(generator.next() % 3)].append(stored)
    }
    var all: [Found] = []
    for index in images.indices {
      for record in images[index].walked() {
        let stored = images[index].stored(record)
        let isDamaged = generator.next() % 16 == 0
        if isDamaged { images[index].bytes[record.payloadRange.lowerBound] ^= 1 }
        all.append(
          Found(record: record, stored: stored, isDead: generator.next() % 4 == 0, isDamaged: isDamaged, image: index))
      }
    }
    #expect(all.count == 200)

    let living = all.filter { !$0.isDead && !$0.isDamaged }
    let newest = Dictionary(grouping: living, by: \.stored.name)
      .compactMapValues { $0.max { $0.stored.sequence < $1.stored.sequence } }
    let expected = Set(newest.values.map(\.record.address))
    for _ in 0..<3 {
      all.shuffle(using: &generator)
      let rebuild = Self.rebuild(all, images)
      #expect(Set(rebuild.entries.map(\.address)) == expected && rebuild.count == expected.count)
      #expect(rebuild.highestSequence == 200)
      let dying = Set(all.filter { !$0.isDead }.map(\.record.address)).subtracting(expected)
      #expect(Set(rebuild.mustDie) == dying && rebuild.mustDie.count == dying.count)
      for entry in rebuild.entries {
        let found = newest.values.first { $0.record.address == entry.address }
        #expect(entry.nameDigest == found?.stored.digest && entry.byteCount == found?.record.header.byteCount)
        #expect(entry.lastUse == found?.stored.fileHeader.lastUpdate)
      }
    }
  }

  /// Strangers can choose names with the same digest, so neither record may replace the other.
  @Test func namesOfOneDigestAreTwo() {
    var image = ChunkImage(byteCount: 4096)
    for (number, key) in [CollidingKeys.first, CollidingKeys.second].enumerated() {
      image.append(Stored(name: Array(key.string.utf8), payload: [1], sequence: UInt64(number)))
    }
    var rebuild = PackRebuild()
    for record in image.walked() { rebuild.add(record, isDead: false, in: image.bytes) }
    #expect(rebuild.count == 2 && rebuild.mustDie.isEmpty)
    #expect(Set(rebuild.entries.map(\.nameDigest)).count == 1)
  }

  @Test func aSequenceTwiceIsDecidedByTheAddress() throws {
    var image = ChunkImage(byteCount: 4096)
    for payload in 0..<2 { image.append(Stored(name: [65], payload: [UInt8(payload)], sequence: 9)) }
    let records = image.walked()
    for order in [records, records.reversed()] {
      var rebuild = PackRebuild()
      for record in order { rebuild.add(record, isDead: false, in: image.bytes) }
      #expect(rebuild.entries.map(\.address) == [records[1].address])
      #expect(rebuild.mustDie == [records[0].address])
    }
  }

  /// There may be fewer names than expected, as many, or so many more that the table grows several times.
  @Test(arguments: [0, 1, 100, 1000, 5000]) func theNumberOfNamesIsNoLimit(expected: Int) {
    var image = ChunkImage(byteCount: 262_144)
    for number in 0..<1000 {
      image.append(Stored(name: Array("name-\(number)".utf8), payload: [1], sequence: UInt64(number)))
    }
    let records = image.walked()
    var rebuild = PackRebuild(expecting: expected)
    for record in records { rebuild.add(record, isDead: false, in: image.bytes) }
    #expect(rebuild.count == 1000 && rebuild.entries.map(\.address) == records.map(\.address))
    // Adding the same records again does not change the count.
    for record in records { rebuild.add(record, isDead: false, in: image.bytes) }
    #expect(rebuild.count == 1000 && rebuild.mustDie == records.map(\.address))
  }

  @Test func withoutRecordsThereIsNothing() {
    let rebuild = PackRebuild()
    #expect(rebuild.count == 0 && rebuild.mustDie.isEmpty && rebuild.highestSequence == 0)
  }
}
