internal import BlobRecord
internal import BlobStore
internal import Logging
internal import Posix
internal import Synchronization

/// Stored blobs that are not on disk yet, in the order of writing.
///
/// Invariant: of each key, at most one blob is being written, and at most one is pending.
final class StagingArea: Sendable {
  struct Staged: PendingChange {
    let blob: Blob
    let request: StoreRequest

    /// The bytes of memory that the blob takes; malloc allocates 350 to 570 bytes for an empty one.
    var byteCost: Int { blob.payload.count + blob.key.string.utf8.count + (blob.extendedData?.count ?? 0) + 512 }
  }

  private struct State: Sendable {
    var blobs = LatestByKey<BlobKey, Staged>()
    var failures: [BlobKey: any Error] = [:]
    var isWriterComing = false
    /// A Boolean value that indicates whether a writer waits for keys that other threads are writing.
    var hasWaitingWriter = false
    /// A Boolean value that indicates whether blobs can no longer be staged, because they would never be written.
    var isClosed = false

    var byteCount: Int { blobs.pendingCost + blobs.inProgressCost }
  }

  private let byteLimit: Int
  private let delay: Duration
  private let state = Monitor(State())
  /// The number of blobs that are pending or being written. While it is 0, loads skip the staging area.
  private let count = Atomic(0)

  /// The maximum number of failures that are recorded for the next flush; others are only logged.
  private static let mostFailures = 1024

  init(byteLimit: Int, delay: Duration) {
    self.byteLimit = byteLimit
    self.delay = delay
  }

  var stagedByteCount: Int { state.read { $0.byteCount } }

  var isEmpty: Bool { count.load(ordering: .acquiring) == 0 }

  func blob(for key: BlobKey) -> Blob? {
    guard !isEmpty else { return nil }
    return state.read { $0.blobs.latest(of: key)?.blob }
  }
}

// MARK: - Staging

extension StagingArea {
  /// Stages a blob in place of the pending one, or returns `false` if it does not fit or is no longer wanted.
  func stage(_ blob: Blob, _ request: StoreRequest) -> Bool {
    state.change { state in
      let staged = Staged(blob: blob, request: request)
      let replaced = state.blobs.pendingChange(of: blob.key)?.byteCost ?? 0
      guard !state.isClosed, state.byteCount - replaced + staged.byteCost <= byteLimit else { return false }
      // Checked under the lock, because a blob stored after the production may already be staged.
      guard request.condition?.isWanted() ?? true else { return false }
      // Keeps the place in the queue, so that a flush does not wait longer.
      state.blobs.put(staged, for: blob.key, keepsPlace: true)
      noteCount(state)
      return true
    }
  }

  /// Performs a change of all keys that replaces all pending blobs, none of which is written in the meantime. Blocks.
  ///
  /// - Parameter isComplete: Returns `false` if the blobs must become pending again, as after an error.
  func replacingAll<Result>(
    _ change: () throws -> Result, isComplete: (Result) -> Bool
  ) throws -> Result {
    // Sorted, so that two concurrent calls cannot deadlock.
    let replaced = keys.sorted { $0.string.utf8.lexicographicallyPrecedes($1.string.utf8) }.compactMap { next(for: $0) }
    do {
      let result = try change()
      if isComplete(result) {
        for staged in replaced { finish(staged.blob.key, nil) }
      } else {
        replaced.forEach(putBack)
      }
      return result
    } catch {
      replaced.forEach(putBack)
      throw error
    }
  }

  /// Makes a blob that was taken for writing pending again, unless a later one is pending.
  func putBack(_ staged: Staged) {
    let key = staged.blob.key
    state.change { state in
      state.blobs.end(key)
      if state.blobs.pendingChange(of: key) == nil { state.blobs.put(staged, for: key, keepsPlace: false) }
      noteCount(state)
    }
  }

  private func noteCount(_ state: State) {
    count.store(state.blobs.count, ordering: .releasing)
  }
}

// MARK: - Writing

extension StagingArea {
  /// Makes a thread of the lane write the pending blobs, unless a writer is already scheduled.
  ///
  /// The delay retains neither the area nor the lane, because the last cache writes all blobs when it is released.
  func startWriting(on lane: Lane, _ write: @escaping @Sendable () -> Void) {
    let starts = state.change { state in
      guard state.blobs.hasPending, !state.isWriterComing else { return false }
      state.isWriterComing = true
      return true
    }
    guard starts else { return }
    let submit = { @Sendable [weak self, weak lane] () -> Void in
      // Without a thread, the blobs stay staged until the next stage or flush.
      lane?.submit(.medium, write) { [weak self] _ in self?.state.change { $0.isWriterComing = false } }
    }
    guard delay > .zero else { return submit() }
    Task { [delay] in
      // If the sleep is cancelled, the blobs are written a little early.
      try? await Task.sleep(for: delay)
      submit()
    }
  }

  /// Returns the next blob to write, for which the caller has to call `finish`.
  ///
  /// Blocks while other threads are writing the keys of all pending blobs.
  ///
  /// - Returns: The blob, or `nil` if no blob is pending, or if another caller already waits for the rest. A wipe may
  ///   take a long time, and one thread is enough to wait for it.
  func next() -> Staged? {
    var isWaiting = false
    return state.wait { state in
      state.isWriterComing = false
      if isWaiting { state.hasWaitingWriter = false }
      isWaiting = false
      if let key = state.blobs.next() { return .done(begin(key, &state)) }
      guard state.blobs.hasPending, !state.hasWaitingWriter else { return .done(nil) }
      state.hasWaitingWriter = true
      isWaiting = true
      return .wait(nil)
    }
  }

  private func begin(_ key: BlobKey, _ state: inout State) -> Staged? {
    defer { noteCount(state) }
    return state.blobs.begin(key)
  }

  /// Returns the pending blob of a key, which the caller has to `finish`. Blocks while another thread writes the key.
  func next(for key: BlobKey) -> Staged? {
    state.wait { state in
      guard state.blobs.inProgress[key] == nil else { return .wait(nil) }
      return .done(begin(key, &state))
    }
  }

  /// Records that the blob taken for writing is on disk, or has failed.
  func finish(_ key: BlobKey, _ failure: (any Error)?) {
    state.change { state in
      guard state.blobs.end(key) != nil else { return }
      if let failure, state.failures.count < Self.mostFailures || state.failures[key] != nil {
        state.failures[key] = failure
      }
      noteCount(state)
    }
  }

  /// Closes the area when all blobs are written. Blocks. Returns `false` if a blob is pending after a failed write.
  func closeIfEmpty() -> Bool {
    state.wait { state in
      if state.blobs.next() != nil { return .done(false) }
      guard state.blobs.isEmpty else { return .wait(nil) }
      state.isClosed = true
      return .done(true)
    }
  }

  var keys: Set<BlobKey> { state.read { $0.blobs.keys } }

  /// Returns the error of the last write of a key, once.
  func takeFailure(of key: BlobKey) -> (any Error)? {
    state.change { $0.failures.removeValue(forKey: key) }
  }

  func takeFailures() -> [BlobKey: any Error] {
    state.change { state in
      defer { state.failures = [:] }
      return state.failures
    }
  }
}

extension Monitor {
  /// Reads the state without waking waiters.
  fileprivate func read<Result>(_ body: (State) -> Result) -> Result {
    wait { .done(body($0)) }
  }
}

extension CacheEngine {
  /// Writes staged blobs until none is pending. Blocks.
  func writeStaged() {
    guard let staging else { return }
    while let staged = staging.next() { writeStaged(staged) }
  }

  /// Writes all staged blobs, and waits for blobs that other threads are writing. Blocks.
  func finishWriting() {
    repeat { writeStaged() } while staging?.closeIfEmpty() == false
  }

  /// Writes a blob. A failure is recorded for the next flush.
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

  /// Writes the staged blob of a key, if any. Blocks.
  func writeStaged(_ key: BlobKey) {
    if let staged = staging?.next(for: key) { writeStaged(staged) }
  }

  func isStaged(_ key: BlobKey) -> Bool { staging?.blob(for: key) != nil }

  /// Writes the staged blob of a key, and throws `writeFailed`, once, if it is not on disk. Blocks.
  func flushStaged(_ key: BlobKey) throws {
    guard let staging else { return }
    if let staged = staging.next(for: key) { writeStaged(staged) }
    if let failure = staging.takeFailure(of: key) { throw writeFailed(key, failure) }
  }

  /// Writes all staged blobs, and throws `writeFailed`, once, if one of them is not on disk. Blocks.
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
