internal import BlobRecord
internal import Logging
internal import Posix
internal import Synchronization
internal import SystemPackage

/// The state that the public store, the keeper of its limits and its collections share.
///
/// Threads of the keeper may outlive the store, so both hold the core. It starts no thread and reports no error under
/// an operation's name: the verbs of `BlobStore` do.
final class StoreCore: Sendable {
  let configuration: BlobStore.Configuration
  /// Seconds to live of records stored without a time to live.
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
  /// nil where nothing is recycled.
  let recyclingLimit: RecyclingLimit?
  /// Whether the last store that looked found a record under its key.
  ///
  /// The next one with a recycled file looks then, before it tries to do without.
  let lastStoreReplaced = Atomic(false)
  /// The room that the last loaded record needed, with which the next read begins.
  let lastReadStrategy = Atomic(ReadStrategy.stack)

  /// - Parameter configuration: one that is valid.
  init(_ root: CacheRoot, _ configuration: BlobStore.Configuration) {
    self.configuration = configuration
    self.root = root
    defaultExpiration = configuration.effectiveDefaultExpiration.secondsRoundedUp
    uses = UseCounting(names: temporaryNames, configuration)
    recyclingLimit = RecyclingLimit(configuration)
    controlFiles = ControlFileOpener(
      names: temporaryNames, configuration, defaultExpiration: defaultExpiration)
    stripes = StripeLocks(root, controlFiles, packs: PackDirectory.name, configuration)
    packHolder = PackHolder(stripes, names: temporaryNames, configuration)
  }

  /// Where a key's record lies by the arrangement of the directory that was opened last, or of a new one.
  ///
  /// The directory in hand may have another: `OpenRoot.placed` tells.
  ///
  /// - Throws: `tooLong` also for a key that the record would have to keep, where records have no extensions.
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

  /// The arrangement of the directory that was opened last, or of a new one.
  var lastArrangement: RecordArrangement { root.arrangement ?? configuration.arrangementOfNewDirectories }

  /// How records are named and placed in a directory.
  func layout(of open: OpenRoot) -> RecordLayout { layout(open.arrangement) }

  private func layout(_ arrangement: RecordArrangement) -> RecordLayout {
    RecordLayout(naming: configuration.layout.naming, arrangement: arrangement)
  }

  /// Judges records as a load of that time does.
  func judge(at now: UnixTime) -> RecordJudge { RecordJudge(at: now, defaultExpiration: defaultExpiration) }

  /// The error for a sound record that is larger than this store takes.
  func tooLarge(_ header: RecordHeader, _ path: FilePath) -> BlobStoreError {
    BlobStoreError(
      .payloadTooLarge,
      "the payload of \(header.payloadSize) bytes is larger than the maximum of \(configuration.limits.payload)",
      path: path)
  }

  /// How long a pass over the whole directory waits for other changes, all in all.
  var patience: Duration { min(configuration.access.lockTimeout, .milliseconds(200)) }

  /// How much of a payload is in memory where it is read in pieces: 256 KiB.
  ///
  /// Large enough that calls cost nothing beside copying, small enough for the second-level cache.
  static var pieceByteCount: Int { 256 << 10 }
}

extension BlobStore.Configuration {
  fileprivate var effectiveDefaultExpiration: Duration {
    guard expiry.defaultTimeToLive < Expiry.minimumDefault else { return expiry.defaultTimeToLive }
    logger.warning("a default expiration of \(expiry.defaultTimeToLive) is raised to \(Expiry.minimumDefault)")
    return Expiry.minimumDefault
  }
}
