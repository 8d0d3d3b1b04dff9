public import BlobRecord

extension BlobStore.Configuration {
  /// Where a store puts its records, and by which names.
  public struct Layout: Hashable, Sendable {
    /// How keys become file names.
    public var naming = RecordNaming.encoded
    /// Which subdirectories records lie in; nil for the directory's own arrangement.
    ///
    /// A directory's own is what its settings say, else the program that changed it last. Where neither says anything,
    /// records that are there lie by `prefix`. A new directory becomes `spread`, and says so in its settings. It becomes
    /// `prefix` where names are `verbatim` or the format is `reference`, for SPTPersistentCache, and where several users
    /// make files who do not trust each other.
    public var arrangement: RecordArrangement?

    public init(naming: RecordNaming = .encoded, arrangement: RecordArrangement? = nil) {
      self.naming = naming
      self.arrangement = arrangement
    }

    /// A layout that leaves nothing to the directory.
    public init(_ layout: RecordLayout) { self.init(naming: layout.naming, arrangement: layout.arrangement) }

    /// Whether records lie in subdirectories: `useDirectorySeparation` of SPTPersistentCache.
    ///
    /// To set it changes a flat arrangement to the one by prefix, and no other.
    public var separatesDirectories: Bool {
      get { arrangement != .flat }
      set {
        if newValue != separatesDirectories { arrangement = newValue ? .prefix : .flat }
      }
    }
  }

  /// The arrangement of a directory that this configuration's store makes.
  package var arrangementOfNewDirectories: RecordArrangement {
    layout.arrangement ?? (hasOwnFormat ? .spread : .prefix)
  }
}

extension BlobStore.Configuration.Layout {
  /// Takes over what a directory says of where its records lie.
  mutating func follow(_ settings: BlobStore.DirectorySettings) {
    if let naming = settings.naming { self.naming = naming }
    if let arrangement = settings.arrangement { self.arrangement = arrangement }
  }

  /// As the settings file has it.
  var words: String { [naming.rawValue, arrangement?.rawValue].compactMap { $0 }.joined(separator: ", ") }
}
