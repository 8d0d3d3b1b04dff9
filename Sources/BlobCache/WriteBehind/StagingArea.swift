internal import BlobRecord
internal import BlobStore
internal import Logging
internal import Posix
internal import Synchronization

/// Stored blobs that are not on disk yet, in the order of writing.
///
/// Invariant: of one key at most one is being written, and at most one waits.
final class StagingArea: Sendable {
  struct Staged: PendingChange {
    let blob: Blob
    let request: StoreRequest

    /// The bytes of memory that it takes: payload, key, and what lies around them.
    ///
    /// Around them are the storage of `Data`, its entries in the tables and in the line, and the allocator's share. By
    /// malloc's count an empty blob takes 350 bytes where the tables are full, and 570 where they have just grown.
    var byteCost: Int { blob.payload.count + blob.key.string.utf8.count + (blob.extendedData?.count ?? 0) + 512 }
  }

  private struct State: Sendable {
    var blobs = LatestByKey<BlobKey, Staged>()
    var failures: [BlobKey: any Error] = [:]
    var isWriterComing = false
    /// Whether a writer waits for keys that others are writing.
    var hasWaitingWriter = false
    /// Whether blobs that are staged from now on would never be written.
    var isClosed = false

    var byteCount: Int { blobs.pendingCost + blobs.inProgressCost }
  }

  private let byteLimit: Int
  private let delay: Duration
  private let state = Monitor(State())
  /// The number of blobs that wait or are being written. While it is 0, loads look no further.
  private let count = Atomic(0)

  /// Failures that are remembered until the next flush; more are only logged.
  private static let mostFailures = 1024

  init(byteLimit: Int, delay: Duration) {
    self.byteLimit = byteLimit
    self.delay = delay
  }

  /// The bytes that the limit counts: of blobs that wait or are being written.
  var stagedByteCount: Int { state.look { $0.byteCount } }

  /// Whether no blob waits or is being written.
  var isEmpty: Bool { count.load(ordering: .acquiring) == 0 }

  /// The latest blob staged for a key.
  func blob(for key: BlobKey) -> Blob? {
    guard !isEmpty else { return nil }
    return state.look { $0.blobs.latest(of: key)?.blob }
  }
}

// MARK: - Staging

extension StagingArea {
  /// Stages a blob, in the place of one of the same key that waits.
  ///
  /// - Returns: false if there is no room, or what was produced is not wanted any more. A blob larger than the whole
  ///   area has no room.
  func stage(_ blob: Blob, _ request: StoreRequest) -> Bool {
    state.change { state in
      let staged = Staged(blob: blob, request: request)
      let replaced = state.blobs.pendingChange(of: blob.key)?.byteCost ?? 0
      guard !state.isClosed, state.byteCount - replaced + staged.byteCost <= byteLimit else { return false }
      // Asked here: what has come since it was produced may be staged already.
      guard request.condition?.isWanted() ?? true else { return false }
      // The place in the line stays: what a flush waits for does not move back.
      state.blobs.put(staged, for: blob.key, keepsPlace: true)
      noteCount(state)
      return true
    }
  }

  /// Runs a change of all keys that replaces all waiting blobs. Blocks.
  ///
  /// No blob that was staged before is written meanwhile.
  ///
  /// - Parameter isComplete: whether the change has come to its end. If not, or if it throws, what waited waits again.
  func replacingAll<Result>(
    _ change: () throws -> Result, isComplete: (Result) -> Bool
  ) throws -> Result {
    // In one order, so that of two such calls neither waits for the other.
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

  /// Makes a blob wait again that was taken to be written, unless a later one waits.
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
  /// Makes a thread of the lane write what waits, unless one is coming already.
  ///
  /// During the delay this holds neither the staging area nor the lane: the release of the last cache writes all
  /// before.
  func startWriting(on lane: Lane, _ write: @escaping @Sendable () -> Void) {
    let starts = state.change { state in
      guard state.blobs.hasPending, !state.isWriterComing else { return false }
      state.isWriterComing = true
      return true
    }
    guard starts else { return }
    let submit = { @Sendable [weak self, weak lane] () -> Void in
      // Without a thread it stays staged, and the next to stage something, or to flush, has it written.
      lane?.submit(.medium, write) { [weak self] _ in self?.state.change { $0.isWriterComing = false } }
    }
    guard delay > .zero else { return submit() }
    Task { [delay] in
      // Cut short, it writes a little early.
      try? await Task.sleep(for: delay)
      submit()
    }
  }

  /// The next blob to write; the caller says `finish` afterwards.
  ///
  /// Blocks while all waiting blobs are for keys that others are writing.
  ///
  /// - Returns: nil if nothing waits, or if another caller already waits for the rest. A wipe may take long, and one
  ///   thread is enough to wait for it.
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

  /// The blob that waits for a key, once no other is being written for it. Blocks.
  ///
  /// The caller says `finish`.
  ///
  /// - Returns: nil if nothing waits.
  func next(for key: BlobKey) -> Staged? {
    state.wait { state in
      guard state.blobs.inProgress[key] == nil else { return .wait(nil) }
      return .done(begin(key, &state))
    }
  }

  /// The blob that was taken to be written is on disk, or will never be.
  func finish(_ key: BlobKey, _ failure: (any Error)?) {
    state.change { state in
      guard state.blobs.end(key) != nil else { return }
      if let failure, state.failures.count < Self.mostFailures || state.failures[key] != nil {
        state.failures[key] = failure
      }
      noteCount(state)
    }
  }

  /// Closes the area once all is written. Blocks while others are writing all blobs.
  ///
  /// - Returns: false if a blob waits whose key nobody is writing, as when a write has failed.
  func closeIfEmpty() -> Bool {
    state.wait { state in
      if state.blobs.next() != nil { return .done(false) }
      guard state.blobs.isEmpty else { return .wait(nil) }
      state.isClosed = true
      return .done(true)
    }
  }

  /// The keys whose blobs wait or are being written.
  var keys: Set<BlobKey> { state.look { $0.blobs.keys } }

  /// Why what was staged for a key is not on disk; told once.
  func takeFailure(of key: BlobKey) -> (any Error)? {
    state.change { $0.failures.removeValue(forKey: key) }
  }

  /// Why what was staged is not on disk; told once.
  func takeFailures() -> [BlobKey: any Error] {
    state.change { state in
      defer { state.failures = [:] }
      return state.failures
    }
  }
}

extension Monitor {
  /// Looks at the state, without waking waiters.
  fileprivate func look<Result>(_ body: (State) -> Result) -> Result {
    wait { .done(body($0)) }
  }
}

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
