extension BlobStore {
  /// Which records lie many to a file, in `.packs` below the root.
  ///
  /// A record in a pack takes no file and no block of its own. A load costs one read, a store one write, a touch none.
  /// SPTPersistentCache does not see it. So directories that it may share, of the `verbatim` naming or the `reference`
  /// format, have no packs, whatever is said here. A program that looks for a file of each record finds none for a small one:
  /// it needs `off`.
  public enum Packing: Hashable, Sendable {
    /// None that is stored from now on. Those that are packed stay where they are, until they are stored anew.
    case off
    /// Records of so many bytes at the most: name, payload, extension and a header of 40 bytes. At most 32,752.
    case upTo(Int)
  }

  /// How loads read packed records.
  public enum PackReads: Hashable, Sendable {
    /// By one system call each. A broken medium is an error of the load.
    case byCalls
    /// From memory, in half of the time. Packs take a gibibyte of address space each. Where the medium cannot be read, or another
    /// program cuts a pack off, the system ends the process by SIGBUS: this is for an application that may end so.
    case mapped
  }
}

extension BlobStore.Packing {
  /// The largest bound: what the eleven bits of a size in the index can say, 2047 times 16.
  public static let largestBound = 32_752

  /// The largest record that is packed, in bytes; nil for none.
  package var bound: Int? { if case .upTo(let bound) = self { bound } else { nil } }

  /// - Parameter bound: nil for no packs.
  package init(bound: Int?) { self = bound.map { .upTo($0) } ?? .off }
}

extension BlobStore.Configuration {
  /// Whether records may have what SPTPersistentCache does not read, such as an extension: not where it may share them.
  var hasOwnFormat: Bool { format == .checksummed && layout.naming != .verbatim }

  /// Whether this configuration's store packs records in any directory.
  var mayPack: Bool { packing != .off && hasOwnFormat }

  /// What a store with this configuration packs in a directory that it creates: nothing, unless `packing` says so.
  package var packingOfNewDirectories: BlobStore.Packing { mayPack ? packing ?? .off : .off }
}
