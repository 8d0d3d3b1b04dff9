internal import Logging
internal import Posix

/// What a store packs in a directory: Spec/Semantics.md, I1a to I1d.
extension OpenRoot {
  /// Decides what a store packs in this directory: what its configuration says, otherwise what the directory's settings say,
  /// otherwise nothing.
  ///
  /// A configuration that packs leaves the decision open in a directory whose settings do not mention packing, because the first
  /// store records it there (`SettingsChange.sayWhatIsNew`).
  ///
  /// System calls: none.
  ///
  /// - Parameter settings: The directory's settings, or `nil` if it has none.
  func findPacking(_ configuration: BlobStore.Configuration, settings: BlobStore.DirectorySettings?) {
    guard configuration.mayPack, let packing = configuration.packing else {
      setPacking(configuration.mayPack ? settings?.packing ?? .off : .off)
      return
    }
    if settings?.packing != nil || isOpenToOthers { setPacking(packing) }
  }

  /// A Boolean value that indicates whether the directory keeps no record of what it packs.
  ///
  /// Users who do not trust each other do not believe each other's settings. Users who may only read cannot open the control
  /// file, without which no packed record is found.
  var isOpenToOthers: Bool { ownership.isSharedByStrangers || ownership.isOpenToReaders }

  /// Whether no record was ever stored in the directory, and packs can be shared in it: the control file is missing or has
  /// counted none, and there is no record and no pack.
  ///
  /// System calls: the control file is opened, as later calls need it. Where it does not tell, the root is listed as far as its
  /// first entry without a dot, the packs are looked for, and `fstatfs(2)`.
  ///
  /// - Parameter packs: the name of the directory of packs.
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
