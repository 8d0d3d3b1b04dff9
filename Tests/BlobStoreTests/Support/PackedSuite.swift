import BlobStore
import Posix

/// A suite of tests with packed records.
protocol PackedSuite {
  var cache: Cache { get }
}

extension PackedSuite {
  func store(
    files: Files = Files(), _ change: (inout BlobStore.Configuration) -> Void = { _ in }
  ) throws -> BlobStore {
    try cache.store(files: files) {
      $0.packing = .upTo(8192)
      change(&$0)
    }
  }

  /// Returns a store whose chunks have space for sixteen records of a thousand bytes.
  func storeOfSmallChunks(
    files: Files = Files(), _ change: (inout BlobStore.Configuration) -> Void = { _ in }
  ) throws -> BlobStore {
    try store(files: files) {
      $0.packChunkByteCount = 16 << 10
      $0.leastPackIndexEntryCount = 100
      change(&$0)
    }
  }
}
