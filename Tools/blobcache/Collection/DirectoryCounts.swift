internal import BlobStore

/// What all processes of a directory have counted in shared memory.
struct DirectoryCounts {
  let traffic: BlobStore.Traffic
  let collections: BlobStore.CollectionStatistics

  init(of store: BlobStore) throws {
    (traffic, collections) = (try store.traffic(), try store.statistics())
  }
}
