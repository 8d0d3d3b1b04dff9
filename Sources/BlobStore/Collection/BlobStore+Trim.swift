extension BlobStore {
  /// Makes one collection that goes on until a goal is reached, whatever the limits are: what has expired goes first, and
  /// counts; locked records stay.
  ///
  /// Each record is judged again under its stripe before it goes. The goal is for once: stores may exceed it the moment
  /// after.
  ///
  /// - Parameters:
  ///   - goal: what must be reached.
  ///   - options: as for `collect`; but every file is looked at, and without `waitsForOther` another collection
  ///     under way is waited for, `lockTimeout` at the most.
  /// - Returns: `evicted` counts the records that went for the goal. `recordsAfter` and `bytesAfter` tell whether it was
  ///   reached.
  /// - Throws: as `collect`.
  /// - Complexity: as `collect` with a limit that is exceeded.
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
