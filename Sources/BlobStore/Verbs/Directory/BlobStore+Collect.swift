internal import BlobRecord
internal import Posix

extension BlobStore {
  /// Makes one collection. It removes expired records, leftovers of dead writers and of damage, and empty
  /// subdirectories. If a limit is exceeded, unlocked records are evicted in the order of `Configuration.Limits.eviction`,
  /// by default the least frequently used first, down to the target. Default: nine tenths of the limit.
  ///
  /// A file to remove is chosen without a lock, and judged again under the record's stripe. Readers and writers of
  /// other keys never wait for it. Records that cannot be removed are logged and counted, and stay.
  ///
  /// - Throws: `collectionRunning` if any process is collecting the directory already; `notACache`, if the options ask
  ///   for that check; `fileSystem` if the pass could not be made.
  /// - Complexity: one walk over all records, and a second one where a limit is exceeded. It takes more walks where
  ///   very many update times lie close together and others far away. Memory does not grow with the number of records.
  @discardableResult
  public func collect(_ options: CollectionOptions = CollectionOptions()) throws(BlobStoreError) -> CollectionReport {
    try withErrorContext("collect") { try core.collect(options) }
  }
}

extension StoreCore {
  fileprivate func collect(_ options: BlobStore.CollectionOptions) throws -> BlobStore.CollectionReport {
    let isCache = try !options.requiresCache || requireCache()
    return try withCollectorLock(options, isCache: isCache) { try CollectionRun(self, options, $0).collect() }
  }
}
