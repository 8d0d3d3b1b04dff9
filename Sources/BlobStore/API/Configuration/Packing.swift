extension BlobStore {
  /// The records that share files called packs, in `.packs` below the root.
  ///
  /// A packed record takes no file and no block for itself. A load costs one read and a store one write, and a touch
  /// costs no system call. SPTPersistentCache cannot read packs, so directories that it may share (with the
  /// `verbatim` naming or the `reference` format) have no packs, regardless of this value. A program that expects a
  /// file for each record needs `off`.
  public enum Packing: Hashable, Sendable {
    /// New records are not packed, but packed ones stay in their packs until they are stored again.
    case off
    /// Records of at most this many bytes, including name, extension, and a header of 40, are packed (up to 32,752).
    case upTo(Int)
  }

  /// The method by which loads read packed records.
  public enum PackReads: Hashable, Sendable {
    /// Each load makes one system call, and fails with an error if the medium is defective.
    case byCalls
    /// Loads read mapped memory, which takes half of the time.
    ///
    /// Each pack takes a gibibyte of address space. If the medium cannot be read, or another program truncates a
    /// pack, the system ends the process by SIGBUS, so this is only for applications that may end in this way.
    case mapped
  }
}

extension BlobStore.Packing {
  /// The largest bound, 2047 times 16 bytes, because an index entry stores a record's size in eleven bits.
  public static let largestBound = 32_752

  /// The size of the largest record that is packed, in bytes, or `nil` if records are not packed.
  package var bound: Int? { if case .upTo(let bound) = self { bound } else { nil } }

  package init(bound: Int?) { self = bound.map { .upTo($0) } ?? .off }
}

extension BlobStore.Configuration {
  /// A Boolean value that indicates whether records may have features that SPTPersistentCache cannot read.
  var hasOwnFormat: Bool { format == .checksummed && layout.naming != .verbatim }

  var mayPack: Bool { packing != .off && hasOwnFormat }

  /// The packing of a directory that a store with this configuration creates.
  package var packingOfNewDirectories: BlobStore.Packing { mayPack ? packing ?? .off : .off }
}
