internal import BlobRecord

extension BlobStore {
  /// Who is told of collections from now on, in the place of whoever was.
  package func observeCollections(by observer: CollectionObserver) { core.collectionObservation.observer = observer }

  /// What collections have done in the directory. Zeros where there is no control file, or one without counters.
  ///
  /// Dry runs are not recorded, nor are collections of stores with `recordsCollections` off.
  ///
  /// - Complexity: O(1).
  public func statistics() throws(BlobStoreError) -> CollectionStatistics {
    try reporting("statistics") {
      guard let open = try core.root.opened(), let control = core.countersFile(of: open) else {
        return CollectionStatistics()
      }
      var statistics = control.statistics
      // The clock was set back, or this is somebody's rubbish: then nobody must wait for its time to come.
      if let last = statistics.lastPass, last.time > core.configuration.now() { statistics.lastPass = nil }
      return statistics
    }
  }
}
