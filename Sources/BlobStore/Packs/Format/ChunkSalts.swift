/// The salts of a chunk's quarters, as the first words of its four dead sectors hold them.
package struct ChunkSalts: Hashable, Sendable {
  private let words: SIMD4<UInt64>

  /// - Parameter words: whatever they hold.
  package init(words: SIMD4<UInt64>) { self.words = words }

  /// Whether a record may lie in one of the quarters.
  package var areAny: Bool { (0..<PackLayout.quarterCount).contains { self[$0] != nil } }

  /// - Parameter quarter: 0 to 3.
  /// - Returns: nil for a quarter whose sector is not whole, in which no record lies therefore.
  package subscript(quarter: Int) -> UInt32? { PackLayout.salt(in: words[quarter]) }
}
