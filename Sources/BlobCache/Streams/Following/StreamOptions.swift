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
