internal import BlobRecord
internal import Logging
internal import Posix
internal import Synchronization
internal import SystemPackage

/// The state that the public store, its limit enforcer and its collections share.
///
/// The enforcer's threads may outlive the store, so both retain the core. The core starts no threads, and the methods
/// of `BlobStore` add an operation's name to its errors.
final class StoreCore: Sendable {
  let configuration: BlobStore.Configuration
  /// The time to live, in seconds, of records that are stored without one.
  let defaultExpiration: Int64
  let root: CacheRoot
  let controlFiles: ControlFileOpener
  let stripes: StripeLocks
  let packHolder: PackHolder
  let temporaryNames = TemporaryNames()
  let isCollecting = CollectionGate()
  let productions = ProductionLocks()
  let collectionObservation = CollectionObservation()
  let uses: UseCounting
  let streams = FollowedStreams()
  let recyclingLimit: RecyclingLimit?
  /// A Boolean value that indicates whether the last store with a lookup found a record under its key. If so, the next
  /// store with a recycled file starts with a lookup too.
  let lastStoreReplaced = Atomic(false)
  /// The buffer that the last loaded record needed, with which the next read starts.
  let lastReadStrategy = Atomic(ReadStrategy.stack)

  init(_ root: CacheRoot, _ configuration: BlobStore.Configuration) {
    self.configuration = configuration
    self.root = root
    defaultExpiration = configuration.effectiveDefaultExpiration.secondsRoundedUp
    uses = UseCounting(names: temporaryNames, configuration)
    recyclingLimit = RecyclingLimit(configuration)
    controlFiles = ControlFileOpener(names: temporaryNames, configuration)
    stripes = StripeLocks(root, controlFiles, configuration)
    packHolder = PackHolder(stripes, names: temporaryNames, configuration)
  }

  /// Returns the path of a key's record by `lastArrangement`; `OpenRoot.placed` converts it for other directories.
  ///
  /// - Throws: `tooLong`, also for a key that does not fit into the file name if records have no extensions.
  func path(for key: BlobKey) throws(KeyError) -> RecordPath {
    let path = try layout(lastArrangement).path(for: key)
    if configuration.format == .reference { try refuseKeptKey(of: path, key) }
    return path
  }

  private func refuseKeptKey(of path: RecordPath, _ key: BlobKey) throws(KeyError) {
    guard configuration.layout.naming == .encoded, configuration.layout.naming.keepsKey(ofFileName: path.fileName)
    else { return }
    throw .tooLong(byteCount: RecordNaming.encodedByteCount(of: key))
  }

  var lastArrangement: RecordArrangement { root.arrangement ?? configuration.arrangementOfNewDirectories }

  func layout(of open: OpenRoot) -> RecordLayout { layout(open.arrangement) }

  private func layout(_ arrangement: RecordArrangement) -> RecordLayout {
    RecordLayout(naming: configuration.layout.naming, arrangement: arrangement)
  }

  func judge(at now: UnixTime) -> RecordJudge { RecordJudge(at: now, defaultExpiration: defaultExpiration) }

  func tooLarge(_ header: RecordHeader, _ path: FilePath) -> BlobStoreError {
    BlobStoreError(
      .payloadTooLarge,
      "the payload of \(header.payloadSize) bytes is larger than the maximum of \(configuration.limits.payload)",
      path: path)
  }

  /// The total time that a pass over the whole directory waits for other changes.
  var patience: Duration { min(configuration.access.lockTimeout, .milliseconds(200)) }

  /// The buffer size for payloads that are read in pieces: 256 KiB. Copying then costs much more than the system
  /// calls, and the buffer fits into the second-level cache.
  static var pieceByteCount: Int { 256 << 10 }
}

extension BlobStore.Configuration {
  fileprivate var effectiveDefaultExpiration: Duration {
    guard expiry.defaultTimeToLive < Expiry.minimumDefault else { return expiry.defaultTimeToLive }
    logger.warning("a default expiration of \(expiry.defaultTimeToLive) is raised to \(Expiry.minimumDefault)")
    return Expiry.minimumDefault
  }
}
