internal import BlobRecord
internal import BlobStore
internal import Logging

extension CacheEngine {
  /// Writes what is staged, until nothing waits. Blocks.
  func writeStaged() {
    guard let staging else { return }
    while let staged = staging.next() { writeStaged(staged) }
  }

  /// Writes what is staged, and returns when all of it is on disk. Blocks.
  ///
  /// That includes blobs that other threads are writing.
  func finishWriting() {
    repeat { writeStaged() } while staging?.closeIfEmpty() == false
  }

  /// A failure is kept for the next flush.
  private func writeStaged(_ staged: StagingArea.Staged) {
    let key = staged.blob.key
    do {
      try write(staged.request, for: key, wasStaged: true)
      staging?.finish(key, nil)
    } catch is Superseded {
      store.configuration.logger.debug("\(key): produced and not stored: it was stored or removed meanwhile")
      staging?.finish(key, nil)
    } catch {
      store.configuration.logger.warning("a staged blob is lost: \(error)")
      observer.tell(CacheEvent(.writeFailed(error), key, byteCount: staged.blob.payload.count))
      staging?.finish(key, error)
    }
  }

  /// Writes what is staged for a key, if something is. Blocks.
  func writeStaged(_ key: BlobKey) {
    if let staged = staging?.next(for: key) { writeStaged(staged) }
  }

  /// Whether something is staged for a key.
  func isStaged(_ key: BlobKey) -> Bool { staging?.blob(for: key) != nil }

  /// Has what was staged for a key on disk when it returns. Blocks.
  ///
  /// - Throws: `writeFailed`, once.
  func flushStaged(_ key: BlobKey) throws {
    guard let staging else { return }
    if let staged = staging.next(for: key) { writeStaged(staged) }
    if let failure = staging.takeFailure(of: key) { throw writeFailed(key, failure) }
  }

  /// Has all that was staged on disk when it returns. Blocks.
  ///
  /// - Throws: `writeFailed`, once, for one of those that failed.
  func flushStaged() throws {
    guard let staging else { return }
    for key in staging.keys {
      if let staged = staging.next(for: key) { writeStaged(staged) }
    }
    let failures = staging.takeFailures()
    guard let (key, failure) = failures.first else { return }
    throw writeFailed(key, failure, and: failures.count - 1)
  }

  private func writeFailed(_ key: BlobKey, _ failure: any Error, and more: Int = 0) -> BlobCacheError {
    let others = more > 0 ? ", and \(more) more" : ""
    return BlobCacheError(
      .writeFailed, "what was staged is not on disk\(others): \(failure)", key: key, path: store.directory,
      cause: failure)
  }
}
