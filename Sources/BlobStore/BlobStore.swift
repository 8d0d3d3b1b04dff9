internal import BlobRecord
internal import Logging
package import Posix
internal import Synchronization
public import SystemPackage

/// A directory of blobs, one record file each.
///
/// Every operation is synchronous: it blocks its thread for the length of its system calls. A store may be used from
/// any number of threads at once. For one key, operations take effect one after the other; a load sees a blob whole,
/// the old one or the new one, and waits for nobody.
///
/// What each operation means: Spec/Semantics.md.
public final class BlobStore: Sendable {
  public let configuration: Configuration
  /// Seconds to live of records stored without a time to live.
  let defaultExpiration: Int64
  let root: RootDirectory
  let stripes: StripeLocks
  package let temporaryNames: TemporaryNames
  let isCollecting: CollectionGate
  let productions = ProductionLocks()
  let collectionObservation: CollectionObservation
  /// nil where nothing is recycled.
  let recyclingLimit: RecyclingLimit?
  /// Whether the last store that looked found a record under its key: the next one with a recycled file looks then, before it
  /// tries to do without.
  let lastStoreReplaced = Atomic(false)
  /// What the record that was loaded last needed: the next one is read as would have been right for that.
  let lastReadRoom = Atomic(ReadRoom.stack)
  /// nil where stores start no collections.
  let keeper: LimitKeeper?

  /// Takes a directory as a store. The directory is opened by the first operation that needs it and made by the first
  /// store: nothing is read here, whatever the directory holds.
  ///
  /// A relative path is made absolute here, so that a change of the working directory moves no store.
  ///
  /// - Throws: `invalidConfiguration`; `fileSystem` for a relative path where the working directory is gone.
  /// - Complexity: O(1).
  public convenience init(directory: FilePath, configuration: Configuration = Configuration()) throws(BlobStoreError) {
    try self.init(directory: directory, configuration: configuration, files: Files())
  }

  /// - Parameters:
  ///   - files: where tests put their faults.
  ///   - holder: is asked before a directory is used.
  package init(
    directory: FilePath, configuration: Configuration, files: Files, holder: (any RootHolder)? = nil
  ) throws(BlobStoreError) {
    try configuration.validate(for: directory)
    let absolutePath = try reporting("open") { try files.absolute(directory) }
    self.configuration = configuration
    defaultExpiration = configuration.effectiveDefaultExpiration.secondsRoundedUp
    temporaryNames = TemporaryNames()
    isCollecting = CollectionGate()
    collectionObservation = CollectionObservation()
    recyclingLimit = RecyclingLimit(configuration)
    root = RootDirectory(
      path: directory, absolutePath: absolutePath, files: files, creates: configuration.createsDirectory,
      allowsWorldWritable: configuration.allowsWorldWritableDirectory, holder: holder)
    stripes = StripeLocks(
      root, names: temporaryNames, configuration: configuration, defaultExpiration: defaultExpiration)
    keeper =
      configuration.collectsOnStore
      ? LimitKeeper(
        BlobStore(
          configuration, defaultExpiration: defaultExpiration, root, stripes, temporaryNames, isCollecting,
          collectionObservation))
      : nil
  }

  /// The same store over again, for its keeper.
  private init(
    _ configuration: Configuration, defaultExpiration: Int64, _ root: RootDirectory, _ stripes: StripeLocks,
    _ temporaryNames: TemporaryNames, _ isCollecting: CollectionGate, _ collectionObservation: CollectionObservation
  ) {
    self.configuration = configuration
    self.defaultExpiration = defaultExpiration
    self.root = root
    self.stripes = stripes
    self.temporaryNames = temporaryNames
    self.isCollecting = isCollecting
    self.collectionObservation = collectionObservation
    recyclingLimit = RecyclingLimit(configuration)
    keeper = nil
  }

  deinit { endCollection() }

  /// Ends a collection that a store has started, with the file in hand, and lets no other begin.
  package func endCollection() { keeper?.close() }

  /// The directory's path, as it was given.
  public var directory: FilePath { root.path }
}

extension BlobStore {
  func path(for key: BlobKey) throws(KeyError) -> RecordPath {
    try configuration.layout.path(for: key)
  }

  func isLive(_ header: RecordHeader, at now: UnixTime) -> Bool {
    header.isLive(at: now, defaultExpiration: defaultExpiration)
  }
}

extension BlobStore.Configuration {
  fileprivate func validate(for directory: FilePath) throws(BlobStoreError) {
    func require(_ condition: Bool, _ message: String) throws(BlobStoreError) {
      guard condition else { throw BlobStoreError(.invalidConfiguration, message, path: directory, operation: "open") }
    }
    try require(!directory.isEmpty, "the directory's path is empty")
    try require(sizeLimit.map { $0 > 0 } ?? true, "a size limit of \(sizeLimit ?? 0) bytes is not above zero")
    try require(countLimit.map { $0 > 0 } ?? true, "a limit of \(countLimit ?? 0) records is not above zero")
    try require(
      evictionTarget > 0 && evictionTarget <= 1,
      "an eviction target of \(evictionTarget) is not above zero and up to one")
    try require((freeSpaceFloor ?? 0) >= 0, "a free space floor of \(freeSpaceFloor ?? 0) bytes is below zero")
    try require(maximumPayload >= 0, "a maximum payload of \(maximumPayload) bytes is below zero")
  }

  fileprivate var effectiveDefaultExpiration: Duration {
    guard defaultExpiration < Self.minimumExpiration else { return defaultExpiration }
    logger.warning(
      "a default expiration of \(defaultExpiration) is raised to \(Self.minimumExpiration)")
    return Self.minimumExpiration
  }
}
