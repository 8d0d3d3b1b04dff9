/// SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014): small, and the same
/// everywhere for a seed.
public struct SeededGenerator: RandomNumberGenerator, Sendable {
  private var state: UInt64

  public init(seed: UInt64) {
    state = seed
  }

  public mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }

  /// Eight at a time: without optimization, a call for each would take longer than most tests do besides.
  public mutating func bytes(_ count: Int) -> [UInt8] {
    [UInt8](unsafeUninitializedCapacity: count) { buffer, initializedCount in
      var rest = UnsafeMutableRawBufferPointer(buffer)[..<count]
      while !rest.isEmpty {
        withUnsafeBytes(of: next().littleEndian) { word in
          let part = rest.prefix(word.count)
          UnsafeMutableRawBufferPointer(rebasing: part).copyMemory(from: .init(rebasing: word.prefix(part.count)))
          rest = rest.dropFirst(word.count)
        }
      }
      initializedCount = count
    }
  }
}

extension SeededGenerator {
  /// The seed of a random test: BLOBCACHE_TEST_SEED if set, else chosen afresh. It is printed, so that what failed can
  /// be run again.
  public static func announcedSeed(for test: String, environment: [String: String]) -> UInt64 {
    let seed = environment["BLOBCACHE_TEST_SEED"].flatMap { UInt64($0) } ?? .random(in: 0 ... .max)
    print("\(test): BLOBCACHE_TEST_SEED=\(seed)")
    return seed
  }
}
