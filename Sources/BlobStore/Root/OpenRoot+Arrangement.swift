internal import BlobRecord
internal import Logging
internal import Posix
internal import Synchronization
internal import SystemPackage

/// The arrangement of a directory's records (Spec/Semantics.md, N5c).
extension OpenRoot {
  /// Returns `path` for this directory's arrangement, because it may have been computed for a replaced directory.
  ///
  /// In an `adaptive` directory, a record may also be stored at `otherPlace(of:)`.
  func placed(_ path: RecordPath) -> RecordPath {
    guard arrangement == .adaptive else { return path.placed(by: arrangement) }
    return path.placed(isNarrow: places == .narrow)
  }

  /// Returns the second place to search if no record is stored at `placed(_:)`, or `nil` if the first is the only one.
  ///
  /// A record does not change its place, so a load finds each record that exists during the whole load. The places may
  /// have become known since `placed(_:)`, so the narrow place is searched even if they are narrow now.
  func otherPlace(of path: RecordPath) -> RecordPath? {
    guard arrangement == .adaptive, path.subdirectory.utf8.count > 1, places != .wide else { return nil }
    return path.placed(isNarrow: true)
  }

  /// A Boolean value that indicates whether the directory is `adaptive`, and this process does not know the places.
  var hasUnknownPlaces: Bool { arrangement == .adaptive && places == nil }

  private var places: RecordPlaces? { readableControlFile?.places }

  /// Determines the arrangement from the configuration, the settings, the hint, or the content of the root.
  ///
  /// If `isForStore` is `false`, a missing permission is not an error, but means `prefix` until a store decides.
  ///
  /// System calls: none if the configuration or the settings specify the arrangement. Otherwise the control file is
  /// opened, which later calls need anyway. If it has no hint, the root is listed up to its first entry without a dot,
  /// and if there is such an entry, the settings are read again.
  func findArrangement(
    _ configuration: BlobStore.Configuration, settings: BlobStore.DirectorySettings?, isForStore: Bool
  ) throws {
    if let known = configuration.layout.arrangement ?? settings?.arrangement {
      return setArrangement(known, mustBeSaid: false)
    }
    do {
      try findUnsaidArrangement(configuration)
    } catch let error as FileError where error.errno == .permissionDenied && !isForStore {
      setArrangement(.prefix, mustBeSaid: true)
    }
  }

  private func findUnsaidArrangement(_ configuration: BlobStore.Configuration) throws {
    // Users who do not trust each other ignore each other's settings.
    let maySay = !ownership.isSharedByStrangers
    if let hinted = try hintedArrangement(configuration.logger) {
      // A hint is lost with the control file.
      return setArrangement(hinted, mustBeSaid: (hinted == .spread || hinted == .adaptive) && maySay)
    }
    guard configuration.arrangementOfNewDirectories == .adaptive && maySay else {
      return setArrangement(.prefix, mustBeSaid: false)
    }
    guard try hasRecordsOrOtherFiles() else { return setArrangement(.adaptive, mustBeSaid: true) }
    // The first store records the arrangement in the settings before it stores a record, so if a record was stored
    // after they were first read, they now contain its arrangement.
    let saidMeanwhile = try settings()
    setArrangement(saidMeanwhile?.arrangement ?? .prefix, mustBeSaid: false)
  }

  private func hintedArrangement(_ logger: Logger) throws -> RecordArrangement? {
    do {
      return try controlFile(logger)?.hint?.layout.arrangement
    } catch let error as BlobStoreError where error.code == .foreignFile {
      return nil
    }
  }

  /// Returns whether the root contains anything but the cache's own files, whose names begin with a dot.
  func hasRecordsOrOtherFiles() throws(FileError) -> Bool {
    try directory.containsVisibleEntry { _, _ in true }
  }

  /// Returns whether the directory may contain a record, in contrast to empty subdirectories and temporary files.
  ///
  /// System calls: the root is listed, and each subdirectory, up to the first record.
  func mayContainRecords() -> Bool {
    do {
      if try directory.status(of: Self.packsName) != nil { return true }
      // In a flat directory, a record may have the name of the tag.
      if try arrangement == .flat && directory.status(of: CacheDirectoryTag.name) != nil { return true }
      return try directory.containsVisibleEntry { name, kind throws(FileError) in
        guard kind == .directory, let subdirectory = try directory.openSubdirectory(name) else { return true }
        return try subdirectory.containsVisibleEntry { _, _ in true }
      }
    } catch {
      // Records can be stored in a directory that cannot be listed now.
      return true
    }
  }
}

extension Directory {
  /// Returns whether an entry satisfies a predicate, without the names that a cache uses for its own files.
  fileprivate borrowing func containsVisibleEntry(
    where predicate: (String, DirectoryEntry.Kind) throws(FileError) -> Bool
  ) throws(FileError) -> Bool {
    var entries = try entries()
    while try entries.advance() {
      let name = entries.entry.name
      if name.utf8.first == UInt8(ascii: ".") || name == CacheDirectoryTag.name { continue }
      if try predicate(name, entries.entryKind) { return true }
    }
    return false
  }
}

/// The packing of a directory (Spec/Semantics.md, I1a to I1d).
extension OpenRoot {
  /// Decides what a store packs in this directory, without system calls.
  ///
  /// The configuration takes precedence over the directory's settings, and the default is to pack nothing. A
  /// configuration that packs leaves the decision open in a directory whose settings do not mention packing, because
  /// the first store records it there (`SettingsChange.sayWhatIsNew`).
  func findPacking(_ configuration: BlobStore.Configuration, settings: BlobStore.DirectorySettings?) {
    guard configuration.mayPack, let packing = configuration.packing else {
      setPacking(configuration.mayPack ? settings?.packing ?? .off : .off)
      return
    }
    if settings?.packing != nil || isOpenToOthers { setPacking(packing) }
  }

  /// A Boolean value that indicates whether the directory's settings cannot specify its packing.
  ///
  /// Users who do not trust each other do not use each other's settings, and users with only read access cannot open
  /// the control file, which packed records need.
  var isOpenToOthers: Bool { ownership.isSharedByStrangers || ownership.isOpenToReaders }

  /// Returns whether the directory has never contained a record and can have shared packs.
  ///
  /// System calls: the control file is opened, which later calls need anyway. If it has counted no record, the root
  /// is listed up to its first entry without a dot, followed by `fstatat(2)` for the packs, and `fstatfs(2)`.
  func isNew(_ logger: Logger) throws -> Bool {
    do {
      let control = try controlFile(logger)
      if control?.hasCountedRecords ?? false { return false }
    } catch let error as BlobStoreError where error.code == .foreignFile {
      return false
    }
    return try !hasRecordsOrOtherFiles() && directory.status(of: Self.packsName) == nil
      && directory.mappingHazard()?.preventsMapping != true
  }
}

struct AtomicArrangement: ~Copyable, Sendable {
  private let number = Atomic<UInt8>(0)

  var value: RecordArrangement? {
    switch number.load(ordering: .relaxed) {
    case 1: .prefix
    case 2: .spread
    case 3: .flat
    case 4: .adaptive
    default: nil
    }
  }

  borrowing func set(_ arrangement: RecordArrangement) {
    let new: UInt8 =
      switch arrangement {
      case .prefix: 1
      case .spread: 2
      case .flat: 3
      case .adaptive: 4
      }
    number.store(new, ordering: .relaxed)
  }
}

struct AtomicPacking: ~Copyable, Sendable {
  /// The bound, which is 0 for `off` and negative until it is known.
  private let number = Atomic(-1)

  var value: BlobStore.Packing? {
    switch number.load(ordering: .relaxed) {
    case ..<0: nil
    case 0: .off
    case let bound: .upTo(bound)
    }
  }

  borrowing func set(_ packing: BlobStore.Packing) { number.store(packing.bound ?? 0, ordering: .relaxed) }
}
