/// SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014): small, and with the same
/// sequence for a seed on every platform.
public struct SeededGenerator: RandomNumberGenerator, Sendable {
  private var state: UInt64

  /// - Parameter path: Numbers that distinguish this generator from others with the same seed.
  public init(seed: UInt64, _ path: Int...) {
    state = seed
    for part in path { state = next() ^ UInt64(truncatingIfNeeded: part) &* 0xD6E8_FEB8_6659_FD93 }
  }

  public mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }

  /// Returns random bytes, generated in words because one call per byte would dominate unoptimized tests.
  public mutating func bytes(_ count: Int) -> [UInt8] {
    // With a capacity of 0, the initializer would write the count of the empty array that all threads share.
    guard count > 0 else { return [] }
    return [UInt8](unsafeUninitializedCapacity: count) { buffer, initializedCount in
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
