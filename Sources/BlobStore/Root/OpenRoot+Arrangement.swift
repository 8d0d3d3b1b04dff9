internal import BlobRecord
internal import Logging
internal import Posix
internal import SystemPackage

/// The arrangement of a directory's records: Spec/Semantics.md, N5c.
extension OpenRoot {
  /// A record's place in this directory.
  ///
  /// The path may have been computed when another directory lay at the root's path.
  func placed(_ path: RecordPath) -> RecordPath { path.placed(by: arrangement) }

  /// Finds out where records lie, unless the configuration says it.
  ///
  /// System calls: none where configuration or settings say it. Else the control file is opened, as later calls need it.
  /// Only where that says nothing, the root is listed as far as its first entry without a dot. If there is one, the settings
  /// are read once more.
  ///
  /// - Parameters:
  ///   - settings: the directory's; nil where it keeps none.
  ///   - isForStore: false if missing permission to look means `prefix`, until a store asks.
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
    // Where strangers make files, none of them believes another's settings.
    let maySay = !ownership.isSharedByStrangers
    if let hinted = try hintedArrangement(configuration.logger) {
      // A hint goes with the control file.
      return setArrangement(hinted, mustBeSaid: hinted == .spread && maySay)
    }
    guard configuration.arrangementOfNewDirectories == .spread && maySay else {
      return setArrangement(.prefix, mustBeSaid: false)
    }
    guard try hasRecordsOrOtherFiles() else { return setArrangement(.spread, mustBeSaid: true) }
    // The records may have come since the settings were read. A first store says where they lie before it puts them there.
    let saidMeanwhile = try settings()
    setArrangement(saidMeanwhile?.arrangement ?? .prefix, mustBeSaid: false)
  }

  /// The arrangement of the program that changed the directory last.
  private func hintedArrangement(_ logger: Logger) throws -> RecordArrangement? {
    do {
      return try controlFile(logger)?.hint?.layout.arrangement
    } catch let error as BlobStoreError where error.code == .foreignFile {
      return nil
    }
  }

  /// Whether anything lies in the root but what the cache itself puts there.
  ///
  /// Names of the cache's own begin with a dot, and those of records never do.
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
