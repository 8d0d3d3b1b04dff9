// Makes the generator available to every test that imports this module.
@_exported public import Randomness
public import Foundation

extension SeededGenerator {
  /// Returns the seed of a random test, from `BLOBCACHE_TEST_SEED` or random, and prints it so that a failure can be
  /// reproduced.
  public static func announcedSeed(
    for test: String, environment: [String: String] = ProcessInfo.processInfo.environment
  ) -> UInt64 {
    let seed = environment["BLOBCACHE_TEST_SEED"].flatMap { UInt64($0) } ?? .random(in: 0 ... .max)
    print("\(test): BLOBCACHE_TEST_SEED=\(seed)")
    return seed
  }
}
