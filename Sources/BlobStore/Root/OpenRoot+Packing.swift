internal import Logging
internal import Posix

/// What a store packs in a directory: Spec/Semantics.md, I1a to I1d.
extension OpenRoot {
  /// Finds out what is packed, as far as configuration and settings say it. The first store finds out the rest.
  ///
  /// System calls: none.
  ///
  /// - Parameter settings: the directory's; nil where it keeps none.
  func findPacking(_ configuration: BlobStore.Configuration, settings: BlobStore.DirectorySettings?) {
    if !configuration.mayPack {
      setPacking(.off)
    } else if let said = settings?.packing {
      setPacking(configuration.packing ?? said)
    } else if isOpenToOthers {
      setPacking(configuration.packing ?? .off)
    }
  }

  /// Whether nothing is packed here unless it is asked for.
  ///
  /// Strangers do not believe each other's settings. Users who may only read cannot open the control file, without which no
  /// packed record is found.
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
