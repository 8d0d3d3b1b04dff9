/// SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014): the same everywhere for a
/// seed.
struct SplitMix: RandomNumberGenerator {
  private var state: UInt64

  /// - Parameter path: what tells this generator from others of the same seed.
  init(seed: UInt64, _ path: Int...) {
    state = seed
    for part in path { state = next() ^ UInt64(truncatingIfNeeded: part) &* 0xD6E8_FEB8_6659_FD93 }
  }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }
}
