public import BlobRecord
public import BlobStore
internal import Locks

/// The writer for the producer of `BlobCache.stream`.
///
/// Properties of the record may be set at any time before the producer returns.
public final class StreamProducer: Sendable {
  /// The properties of the blob that apply when the producer returns.
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
  /// The number of bytes that were appended.
  public var byteCount: Int64 { state.withLock { $0.byteCount } }

  /// Appends bytes to the payload, and returns when they are written and available to readers.
  ///
  /// With `maximumLead`, it then waits for the readers.
  ///
  /// - Throws: The errors of `CacheWriter.append`; `CancellationError` if the last reader has left.
  public func append(_ bytes: Data) async throws {
    try Task.checkCancellation()
    try await writer.append(bytes)
    let total = state.withLock { state in
      state.byteCount += Int64(bytes.count)
      return state.byteCount
    }
    if let lead = production.options.maximumLead { try await production.waitForReaders(toPass: total - lead) }
  }

  /// Sets the time to live, or `nil` for the default expiration.
  public func setTimeToLive(_ ttl: Duration?) { state.withLock { $0.ending.ttl = ttl } }

  /// Sets the locks of the record. By default, it keeps the locks of the previous record.
  public func setLocks(_ locks: BlobStore.LockPolicy) { state.withLock { $0.ending.locks = locks } }

  /// Sets the size of the payload in bytes. A payload of another size is discarded at the end.
  public func setExpectedSize(_ byteCount: Int64) { state.withLock { $0.ending.expectedSize = byteCount } }

  /// Sets the extended data, as for `store`. Readers get it with the last piece.
  public func setExtendedData(_ data: Data) { state.withLock { $0.ending.extendedData = data } }

  /// Prevents the store. Present readers get the whole blob, and later ones find nothing.
  public func doNotStore() { state.withLock { $0.ending.isStored = false } }

  func finish() async throws {
    try await writer.finish(ending)
  }

  func giveUp() async { await writer.giveUp() }
}

/// The options of `BlobCache.stream`.
public struct StreamOptions: Hashable, Sendable {
  /// The time to live unless the producer sets another, or `nil` for the default expiration.
  public var ttl: Duration?
  /// The time that a reader waits for another byte.
  public var timeout: Duration
  /// A Boolean value that indicates whether the producer continues after the last reader of this process has left.
  public var finishesAlone: Bool
  /// The maximum number of bytes by which the producer may be ahead of the foremost reader, or `nil` for no limit.
  ///
  /// These bytes are stored on disk, not in memory.
  public var maximumLead: Int64?
  /// A Boolean value that indicates whether only one process at a time produces a blob, while others read its bytes.
  public var acrossProcesses: Bool
  /// The time to wait for another process that is about to begin. After it, this process produces anyway.
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
