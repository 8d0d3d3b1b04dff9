internal import Logging
internal import Posix

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
  func isNew(packs: String, _ logger: Logger) throws -> Bool {
    do {
      let control = try controlFile(logger)
      if control?.hasCountedRecords ?? false { return false }
    } catch let error as BlobStoreError where error.code == .foreignFile {
      return false
    }
    return try !hasRecordsOrOtherFiles() && directory.status(of: packs) == nil && directory.mappingHazard() == nil
  }
}
