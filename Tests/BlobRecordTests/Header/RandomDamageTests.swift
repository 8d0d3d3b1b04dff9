import BlobRecord
import Foundation
import TestSupport
import Testing

/// Headers of all kinds with one to all bits flipped at random. None is accepted, although one in 2^32 might be by
/// chance. BLOBCACHE_TEST_LONG=1 damages eighty million headers.
@Suite struct RandomDamageTests {
  static let count = ProcessInfo.processInfo.environment["BLOBCACHE_TEST_LONG"] == "1" ? 80_000_000 : 200_000

  @Test(.timeLimit(.minutes(60))) func noDamagedHeaderIsTakenForGood() {
    let seed = SeededGenerator.announcedSeed(for: "noDamagedHeaderIsTakenForGood")
    var generator = SeededGenerator(seed: seed)
    var words = [UInt64](repeating: 0, count: 8)
    for number in 0..<Self.count {
      if number % 64 == 0 { words = Self.randomHeader(&generator) }
      var damaged = words
      // Changes one or several fields, mostly by few bits and sometimes by all.
      repeat {
        let place = Int(truncatingIfNeeded: generator.next() & 7)
        damaged[place] ^= generator.next() & generator.next() & generator.next()
      } while damaged == words || generator.next() & 3 == 0
      guard damaged != words, Self.isTaken(damaged) else { continue }
      Issue.record("BLOBCACHE_TEST_SEED=\(seed), header \(number): \(words) became \(damaged)")
      return
    }
    print("\(Self.count) damaged headers refused")
  }

  private static func isTaken(_ words: [UInt64]) -> Bool {
    (try? RecordHeader(decoding: words.span.bytes)) != nil
  }

  private static func randomHeader(_ generator: inout SeededGenerator) -> [UInt64] {
    var header = RecordHeader(
      refCount: UInt32(truncatingIfNeeded: generator.next()), ttl: generator.next(), updateTime: generator.next(),
      payloadSize: generator.next())
    header.payloadChecksum = UInt32(truncatingIfNeeded: generator.next())
    header.keyDigest = generator.next()
    return header.withEncodedBytes { bytes in bytes.withUnsafeBytes { Array($0.bindMemory(to: UInt64.self)) } }
  }
}
