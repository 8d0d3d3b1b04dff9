/// What a cache has to do with its remote tier: its condition, and counts since the cache was opened.
public struct RemoteStatus: Hashable, Sendable, Codable {
  /// Whether the engine is asked.
  public enum Condition: String, CaseIterable, Sendable, Codable {
    case inUse
    /// It has failed, and is left alone for a while.
    case leftAlone
    /// It has failed, and the next request, or one under way, tries it.
    case tried
  }

  /// What messages call the engine.
  public internal(set) var engine = ""
  /// Whether loads ask it.
  public internal(set) var condition = Condition.inUse
  /// Whether stores and removals go there: an engine may answer loads and refuse changes.
  public internal(set) var changeCondition = Condition.inUse
  /// Requests that have ended, well or not: for records and headers, changes, leases and announcements.
  public internal(set) var requests: Int64 = 0
  /// Loads that the engine answered with a blob.
  public internal(set) var hits: Int64 = 0
  /// Loads that it answered with nothing, or with a record that is expired.
  public internal(set) var misses: Int64 = 0
  /// Loads that did not ask, because the engine is left alone.
  public internal(set) var passedOver: Int64 = 0
  /// Requests that failed, of every kind.
  public internal(set) var failures: Int64 = 0
  /// Objects that were no record of their key.
  public internal(set) var damaged: Int64 = 0
  public internal(set) var uploads: Int64 = 0
  public internal(set) var removals: Int64 = 0
  /// Stores that did not reach the engine, because it failed or too many waited.
  public internal(set) var droppedUploads: Int64 = 0
  /// Removals that did not reach it, because too many waited or the cache was closed.
  public internal(set) var droppedRemovals: Int64 = 0
  public internal(set) var uploadedBytes: Int64 = 0
  public internal(set) var loadedBytes: Int64 = 0
  /// Stores and removals that wait or are under way.
  public internal(set) var waitingChanges = 0
  /// Bytes of the stores among them.
  public internal(set) var waitingBytes = 0
}
