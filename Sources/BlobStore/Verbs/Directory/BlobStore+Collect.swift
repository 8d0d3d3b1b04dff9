internal import BlobRecord
internal import Posix

extension BlobStore {
  /// Makes one collection: removes what has expired, what dead writers and damage have left, empty subdirectories, and
  /// then, if there is a limit and it is exceeded, unlocked records, oldest update time first, down to the target, nine
  /// tenths of the limit by default.
  ///
  /// Which file to remove is decided without a lock, and decided again under the record's stripe. Readers and writers
  /// of other keys are never kept waiting. Records that cannot be removed are logged and counted, and left.
  ///
  /// - Throws: `collectionRunning` if a collection of the directory is going on already, in whatever process;
  ///   `notACache`, if the options ask for that; `fileSystem` if the pass could not be made.
  /// - Complexity: one walk over all records; with a limit that is exceeded, two, or more where the update times of
  ///   very many records lie close together and those of others far away. Memory does not grow with their number.
  @discardableResult
  public func collect(_ options: CollectionOptions = CollectionOptions()) throws(BlobStoreError) -> CollectionReport {
    try reporting("collect") { try core.collect(options) }
  }
}

extension StoreCore {
  fileprivate func collect(_ options: BlobStore.CollectionOptions) throws -> BlobStore.CollectionReport {
    try withCollectorLock(options) { try CollectionRun(self, options, $0).collect() }
  }
}
