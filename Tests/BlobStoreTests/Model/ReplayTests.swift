import BlobRecord
import Foundation
import TestSupport
import Testing

/// A seed reproduces all random choices; otherwise, a printed seed would be useless. Suites with separate generators
/// have their own tests of this.
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
    // Without a number in the environment, two seeds are equal once in 2^64.
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
