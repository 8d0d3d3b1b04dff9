/// The hash by which the index finds a name: where its entry may lie, and its tag.
///
/// The seed is the index's own, so keys that meet in one bucket of one cache do not in another.
package struct IndexHash: Hashable, Sendable {
  private let value: UInt64

  /// - Parameters:
  ///   - digest: of the file name (`NameDigest`).
  ///   - seed: of the index.
  package init(digest: UInt64, seed: UInt64) {
    // Variant 13 of D. Stafford, "Better Bit Mixing", which SplitMix64 ends with: FNV's high bits tell names badly apart.
    var mixed = digest ^ seed
    mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
    value = mixed ^ mixed >> 31
  }

  /// The low bits, while the bucket is made of the high ones: entries of one bucket differ in their tags.
  package var tag: UInt16 { UInt16(truncatingIfNeeded: value) }

  /// The bucket at which a search for the name begins: below `count`.
  package func bucket(of count: UInt64) -> UInt64 { value.multipliedFullWidth(by: count).high }
}
