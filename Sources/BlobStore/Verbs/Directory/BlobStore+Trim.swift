extension BlobStore {
  /// Makes one collection that goes on until a goal is reached, below the limits too.
  ///
  /// Expired records go first, and count. Locked records stay. Each record is judged again under its stripe before it
  /// goes. The goal holds once: stores may exceed it the moment after.
  ///
  /// - Parameters:
  ///   - goal: what must be reached.
  ///   - options: as for `collect`. But every file is looked at. Without `waitsForOther`, the trim waits for another
  ///     collection under way, `lockTimeout` at most.
  /// - Returns: `evicted` counts the records that went for the goal. `recordsAfter` and `bytesAfter` tell whether it
  ///   was reached.
  /// - Throws: as `collect`.
  /// - Complexity: as `collect` with an exceeded limit.
  @discardableResult
  public func trim(
    to goal: TrimGoal, _ options: CollectionOptions = CollectionOptions()
  ) throws(BlobStoreError) -> CollectionReport {
    var options = options
    options.goal = goal
    options.looksAtEverything = true
    options.waitsForOther = options.waitsForOther ?? configuration.access.lockTimeout
    return try collect(options)
  }
}
