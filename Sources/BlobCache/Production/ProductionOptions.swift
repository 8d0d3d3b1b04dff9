public import BlobStore

/// How `load(_:orStore:)` goes about a blob that is missing.
public struct ProductionOptions: Hashable, Sendable {
  /// The time to live of the blob produced; nil for the default expiration, counted from the last access.
  public var ttl: Duration?
  /// The locks of the blob produced. A blob that is refreshed for its age keeps the locks it has, whatever this says.
  public var locks: BlobStore.LockPolicy
  /// Whether what was produced is answered also when it cannot be stored: the volume is full, the limit is reached by locked
  /// records, the blob is too large. An event (`writeFailed`) and the log tell of it, and who asks next has it produced again. If
  /// false, the default, the store's error is thrown.
  public var answersUnstored = false
  /// For how long a failure of the producer is remembered, and thrown again to whoever asks for the key, without
  /// producing; nil not to. Rounded up to a second. A store of the key ends it, and so does the end of the process.
  /// Cancellations are not remembered.
  public var remembersFailuresFor: Duration?
  /// From what age on a blob that is still live is answered and at the same time produced anew; nil not to. It counts
  /// from the store, so only blobs with a `ttl` of their own have an age.
  public var refreshesAfter: Duration?
  /// Whether other processes that share the directory are kept from producing the same blob at the same time. Who comes
  /// second waits until the blob is there, at most `waitsForOthers`.
  public var acrossProcesses = false
  /// How long to wait for another process, before producing all the same.
  public var waitsForOthers: Duration

  public init(
    ttl: Duration? = nil, locks: BlobStore.LockPolicy = .keep, answersUnstored: Bool = false,
    remembersFailuresFor: Duration? = nil,
    refreshesAfter: Duration? = nil, acrossProcesses: Bool = false, waitsForOthers: Duration = .seconds(10)
  ) {
    self.ttl = ttl
    self.locks = locks
    self.answersUnstored = answersUnstored
    self.remembersFailuresFor = remembersFailuresFor
    self.refreshesAfter = refreshesAfter
    self.acrossProcesses = acrossProcesses
    self.waitsForOthers = waitsForOthers
  }
}
