internal import BlobStore
internal import Logging
internal import Synchronization
internal import SystemPackage

/// Excludes the directory from backups, once, after the first store.
final class BackupExclusion: Sendable {
  private let store: BlobStore
  private let isLeft: Atomic<Bool>

  init(store: BlobStore, isWanted: Bool) {
    self.store = store
    isLeft = Atomic(!isWanted)
  }

  /// Marks the directory as a cache. Blocks. A failure is only logged, because the cache works without the mark.
  func apply() {
    guard !isLeft.load(ordering: .relaxed), !isLeft.exchange(true, ordering: .relaxed) else { return }
    do {
      try store.leaveCacheTag()
      #if canImport(Darwin)
        var url = URL(filePath: store.directory.string)
        var values = URLResourceValues()
        values.isExcludedFromBackup = true
        try url.setResourceValues(values)
      #endif
    } catch {
      store.configuration.logger.info("the directory is not marked as a cache: \(error)")
    }
  }
}
