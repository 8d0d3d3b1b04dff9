internal import BlobStore

/// The counters in shared memory that all processes of a directory update.
struct DirectoryCounts {
  let traffic: BlobStore.Traffic
  let collections: BlobStore.CollectionStatistics

  init(of store: BlobStore) throws {
    (traffic, collections) = (try store.traffic(), try store.statistics())
  }
}
