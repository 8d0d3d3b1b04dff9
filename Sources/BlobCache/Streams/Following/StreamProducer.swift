public import BlobRecord
public import BlobStore
internal import Locks

/// What a producer of `BlobCache.stream` writes its blob with.
///
/// What it says of the record may be said at any time before the producer returns.
public final class StreamProducer: Sendable {
  /// What becomes of the blob once the producer returns.
  struct Ending {
    var ttl: Duration?
    var locks = BlobStore.LockPolicy.keep
    var expectedSize: Int64?
    var extendedData: Data?
    var isStored = true
  }

  private struct State {
    var ending: Ending
    var byteCount: Int64 = 0
  }

  public let key: BlobKey
  private let writer: CacheWriter
  private let production: StreamProduction
  private let state: Lock<State>

  init(_ writer: CacheWriter, _ production: StreamProduction) {
    key = writer.key
    self.writer = writer
    self.production = production
    state = Lock(State(ending: Ending(ttl: production.options.ttl)))
  }

  var ending: Ending { state.withLock { $0.ending } }
  /// Bytes of payload so far.
  public var byteCount: Int64 { state.withLock { $0.byteCount } }

  /// Adds bytes at the end of the payload, which readers get at once, and returns when they are written.
  ///
  /// With `maximumLead`, it then waits for the readers.
  ///
  /// - Throws: as `CacheWriter.append`; `CancellationError` if the last reader has left.
  public func append(_ bytes: Data) async throws {
    try Task.checkCancellation()
    try await writer.append(bytes)
    let total = state.withLock { state in
      state.byteCount += Int64(bytes.count)
      return state.byteCount
    }
    if let lead = production.options.maximumLead { try await production.waitForReaders(toPass: total - lead) }
  }

  /// Says how long the blob lives; nil for the default expiration.
  public func setTimeToLive(_ ttl: Duration?) { state.withLock { $0.ending.ttl = ttl } }

  /// Says which locks the record gets. If nothing is said, it keeps those of the record before.
  public func setLocks(_ locks: BlobStore.LockPolicy) { state.withLock { $0.ending.locks = locks } }

  /// Says how many bytes the payload has. A payload of another size is given up at the end.
  public func setExpectedSize(_ byteCount: Int64) { state.withLock { $0.ending.expectedSize = byteCount } }

  /// Says what lies beside the payload, as for `store`. Readers get it with the last piece.
  public func setExtendedData(_ data: Data) { state.withLock { $0.ending.extendedData = data } }

  /// Says that the blob must not be stored. Its readers get all of it, and later ones find nothing.
  public func doNotStore() { state.withLock { $0.ending.isStored = false } }

  func finish() async throws {
    try await writer.finish(ending)
  }

  func giveUp() async { await writer.giveUp() }
}

/// How `BlobCache.stream` goes about a blob that is missing.
public struct StreamOptions: Hashable, Sendable {
  /// The time to live of the blob, unless its producer says another; nil for the default expiration.
  public var ttl: Duration?
  /// How long a reader waits for another byte.
  public var timeout: Duration
  /// Whether the producer goes on when the last reader of this process has left.
  public var finishesAlone: Bool
  /// How many bytes the producer may be ahead of the reader that is furthest; nil for any number.
  ///
  /// What is ahead lies on disk, not in memory.
  public var maximumLead: Int64?
  /// Whether one process at a time produces a blob, of all that share the directory. The others read what it writes.
  public var acrossProcesses: Bool
  /// How long to wait for another process that is about to begin, before producing all the same.
  public var waitsForOthers: Duration

  public init(
    ttl: Duration? = nil, timeout: Duration = .seconds(30), finishesAlone: Bool = false, maximumLead: Int64? = nil,
    acrossProcesses: Bool = false, waitsForOthers: Duration = .seconds(10)
  ) {
    self.ttl = ttl
    self.timeout = timeout
    self.finishesAlone = finishesAlone
    self.maximumLead = maximumLead
    self.acrossProcesses = acrossProcesses
    self.waitsForOthers = waitsForOthers
  }
}
