import Foundation
import TestSupport
import Testing

/// Compares collections of random caches to the model. BLOBCACHE_TEST_LONG=1 creates 20,000 of them.
@Suite struct RandomCacheTests {
  static let count = ProcessInfo.processInfo.environment["BLOBCACHE_TEST_LONG"] == "1" ? 20_000 : 1_000

  @Test(.timeLimit(.minutes(60))) func aCollectionRemovesWhatItsRulesSay() throws {
    let seed = SeededGenerator.announcedSeed(for: "aCollectionRemovesWhatItsRulesSay")
    for number in 0..<Self.count {
      var cache = try RandomCache(seed: seed &+ UInt64(number))
      let mismatches = try cache.mismatches()
      guard mismatches.isEmpty else {
        Issue.record("BLOBCACHE_TEST_SEED=\(seed &+ UInt64(number)), the first cache: \(mismatches)")
        return
      }
    }
    print("\(Self.count) caches collected")
  }
}
