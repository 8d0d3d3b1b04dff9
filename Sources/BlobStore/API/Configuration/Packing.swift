extension BlobStore {
  /// Which records lie many to a file, in `.packs` below the root.
  ///
  /// A record in a pack takes no file and no block of its own. SPTPersistentCache does not see it. So directories that it may
  /// share, of the `verbatim` naming or the `reference` format, have no packs.
  package enum Packing: Hashable, Sendable {
    /// None that is stored from now on. Those that are packed stay, until they are stored anew.
    case off
    /// Records of so many bytes at the most, with a header of 40 bytes, name and extension: at most 32,752.
    case upTo(Int)

    /// The largest record that is packed; nil for none.
    var largestByteCount: Int? { if case .upTo(let count) = self { count } else { nil } }
  }
}
