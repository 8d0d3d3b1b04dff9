internal import BlobRecord

extension BlobStore {
  /// Tells an observer of collections from now on, instead of the one before.
  package func observeCollections(by observer: CollectionObserver) { core.collectionObservation.observer = observer }

  /// The work of collections in the directory. Zeros where there is no control file, or one without counters.
  ///
  /// Dry runs are not recorded, nor are collections of stores with `recordsCollections` off.
  ///
  /// - Complexity: O(1).
  public func statistics() throws(BlobStoreError) -> CollectionStatistics {
    try withErrorContext("statistics") {
      guard let open = try core.root.opened(), let control = core.countersFile(of: open) else {
        return CollectionStatistics()
      }
      var statistics = control.statistics
      // The clock was set back, or the value is rubbish: schedules must not wait for its time to come.
      if let last = statistics.lastPass, last.time > core.configuration.now() { statistics.lastPass = nil }
      return statistics
    }
  }
}
