extension Int64 {
  /// The largest magnitude of a number from shared memory: far more records, bytes, or seconds than any directory has.
  private static let mostShared: Int64 = 1 << 57

  /// Creates a number for arithmetic from a word of shared memory, limited to 2^57 and -2^57.
  ///
  /// Damage, a program with a mistake, or a hostile member of the group may have written any number. A sum of up to 63
  /// limited numbers cannot overflow, so code that uses them needs no further precautions.
  init(shared word: Int64) { self = Swift.min(Swift.max(word, -Self.mostShared), Self.mostShared) }
}
