import TestSupport

/// A key whose hash is the test's choice, and so what the index and the sketch make of it in each run.
struct FixedKey: Hashable, Sendable {
  let number: Int
  let hashValue: Int

  /// A key with a hash that is spread well, and the same in each run.
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
