extension BlobStore {
  /// Which records go first where a limit is exceeded.
  public enum Eviction: String, CaseIterable, Sendable {
    /// Those that were used least, for the time since they were used last.
    ///
    /// The processes of a directory count uses in shared memory. Where they have none, the order is that of `oldest`.
    case frequency
    /// Those with the oldest update time, as in SPTPersistentCache.
    case oldest
  }
}
