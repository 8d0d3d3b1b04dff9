import TestSupport

/// A key with a fixed hash, so that the index and the sketch behave identically in each run.
struct FixedKey: Hashable, Sendable {
  let number: Int
  let hashValue: Int

  /// Creates a key with a well distributed hash that is the same in each run.
  init(_ number: Int) {
    var generator = SeededGenerator(seed: UInt64(number))
    self.init(number, hash: Int(truncatingIfNeeded: generator.next()))
  }

  init(_ number: Int, hash: Int) {
    self.number = number
    hashValue = hash
  }

  func hash(into hasher: inout Hasher) { hasher.combine(hashValue) }
}
