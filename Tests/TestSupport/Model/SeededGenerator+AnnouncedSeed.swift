// With this module every test has the generator.
@_exported public import Randomness
public import Foundation

extension SeededGenerator {
  /// The seed of a random test: BLOBCACHE_TEST_SEED if set, else chosen afresh. It is printed, so that what failed can
  /// be run again.
  public static func announcedSeed(
    for test: String, environment: [String: String] = ProcessInfo.processInfo.environment
  ) -> UInt64 {
    let seed = environment["BLOBCACHE_TEST_SEED"].flatMap { UInt64($0) } ?? .random(in: 0 ... .max)
    print("\(test): BLOBCACHE_TEST_SEED=\(seed)")
    return seed
  }
}
