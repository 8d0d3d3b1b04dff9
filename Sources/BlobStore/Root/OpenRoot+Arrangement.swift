internal import BlobRecord
internal import Logging
internal import Posix
internal import SystemPackage

/// The arrangement of a directory's records (Spec/Semantics.md, N5c).
extension OpenRoot {
  /// Returns `path` for this directory's arrangement, because it may have been computed for a replaced directory.
  func placed(_ path: RecordPath) -> RecordPath { path.placed(by: arrangement) }

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
      return setArrangement(hinted, mustBeSaid: hinted == .spread && maySay)
    }
    guard configuration.arrangementOfNewDirectories == .spread && maySay else {
      return setArrangement(.prefix, mustBeSaid: false)
    }
    guard try hasRecordsOrOtherFiles() else { return setArrangement(.spread, mustBeSaid: true) }
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
    var entries = try directory.entries()
    while try entries.advance() {
      if entries.entry.name.utf8.first != UInt8(ascii: "."), entries.entry.name != CacheDirectoryTag.name {
        return true
      }
    }
    return false
  }
}
