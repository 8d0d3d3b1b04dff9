import BlobRecord
import Foundation
import TestSupport
import Testing

/// What chance has chosen is chosen again by its seed: without that, a printed seed would be of no use. The suites that
/// have generators of their own say so themselves.
@Suite struct ReplayTests {
  /// The published values for the seed 1234567 (Vigna, splitmix64.c).
  @Test func theGeneratorIsSplitMix() {
    var generator = SeededGenerator(seed: 1_234_567)
    #expect(generator.next() == 6_457_827_717_110_365_317)
    #expect(generator.next() == 3_203_168_211_198_807_973)
    #expect(generator.next() == 9_817_491_932_198_370_423)
  }

  @Test func aSeedIsTakenFromTheEnvironment() {
    let environment = ["BLOBCACHE_TEST_SEED": "18446744073709551615"]
    #expect(SeededGenerator.announcedSeed(for: "test", environment: environment) == .max)
    // Without one, and with none that is a number, two are the same once in 2^64.
    for environment in [[:], ["BLOBCACHE_TEST_SEED": "x"]] {
      let seeds = (0..<2).map { _ in SeededGenerator.announcedSeed(for: "test", environment: environment) }
      #expect(seeds[0] != seeds[1])
    }
  }

  @Test func aSeedMakesTheSameCacheAgain() throws {
    func files(_ seed: UInt64) throws -> [String: Data] {
      let cache = try RandomCache(seed: seed)
      return try Dictionary(uniqueKeysWithValues: contents(of: cache.root).map { ($0.key.string, $0.value) })
    }
    for seed in 1...20 as ClosedRange<UInt64> { #expect(try files(seed) == files(seed)) }
    #expect(try files(1) != files(2))
  }
}
