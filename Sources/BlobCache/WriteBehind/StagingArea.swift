internal import BlobRecord
internal import BlobStore
internal import Posix
internal import Synchronization

/// Stored blobs that are not on disk yet, in the order of writing.
///
/// Invariant: of one key at most one is being written, and at most one waits.
final class StagingArea: Sendable {
  struct Staged: Sendable {
    let blob: Blob
    let request: StoreRequest

    /// The bytes of memory that it takes: payload, key, and what lies around them.
    ///
    /// Around them are the storage of `Data`, its entries in the tables and in the line, and the allocator's share. By
    /// malloc's count an empty blob takes 350 bytes where the tables are full, and 570 where they have just grown.
    var cost: Int { blob.payload.count + blob.key.string.utf8.count + (blob.extendedData?.count ?? 0) + 512 }
  }

  private struct State: Sendable {
    /// The keys that wait and are not in hand.
    ///
    /// A key in hand comes back to its place in the line afterwards.
    var line = WaitingLine<BlobKey>()
    var waiting: [BlobKey: (staged: Staged, ticket: WaitingLine<BlobKey>.Ticket)] = [:]
    var inHand: [BlobKey: Staged] = [:]
    var byteCount = 0
    var failures: [BlobKey: any Error] = [:]
    var isWriterComing = false
    /// Whether a writer waits for keys that others have in hand.
    var hasWaitingWriter = false
    /// Whether blobs that are staged from now on would never be written.
    var isClosed = false
  }

  private let byteLimit: Int
  private let delay: Duration
  private let state = Monitor(State())
  /// The number of blobs that wait or are in hand. While it is 0, loads look no further.
  private let count = Atomic(0)

  /// Failures that are remembered until the next flush; more are only logged.
  private static let mostFailures = 1024

  init(byteLimit: Int, delay: Duration) {
    self.byteLimit = byteLimit
    self.delay = delay
  }

  /// The bytes that the limit counts: of blobs that wait or are in hand.
  var stagedByteCount: Int { state.look { $0.byteCount } }

  /// A Boolean value that indicates whether the area has been closed.
  var isClosed: Bool { state.look { $0.isClosed } }

  /// Whether no blob waits or is in hand.
  var isEmpty: Bool { count.load(ordering: .acquiring) == 0 }

  /// The latest blob staged for a key.
  func blob(for key: BlobKey) -> Blob? {
    guard !isEmpty else { return nil }
    return state.look { $0.waiting[key]?.staged.blob ?? $0.inHand[key]?.blob }
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
      let old = state.waiting[blob.key]
      let byteCount = state.byteCount - (old?.staged.cost ?? 0) + staged.cost
      guard !state.isClosed, byteCount <= byteLimit else { return false }
      // Asked here: what has come since it was produced may be staged already.
      guard request.condition?.isWanted() ?? true else { return false }
      state.byteCount = byteCount
      // The place in the line stays: what a flush waits for does not move back.
      let ticket = old?.ticket ?? state.line.ticket()
      state.waiting[blob.key] = (staged, ticket)
      if old == nil, state.inHand[blob.key] == nil { state.line.append(blob.key, ticket) }
      noteCount(state)
      return true
    }
  }

  /// Runs a change that replaces the blob that waits for a key. Blocks.
  ///
  /// No staged blob is written for the key meanwhile.
  ///
  /// - Parameter change: is told whether a blob waited. If it throws, that waits again.
  func replacing<Result>(_ key: BlobKey, _ change: (Bool) throws -> Result) throws -> Result {
    // In hand, so that loads see it until the change is done, and no other thread writes the key meanwhile.
    let replaced = next(for: key)
    do {
      let result = try change(replaced != nil)
      if replaced != nil { finish(key, nil) }
      return result
    } catch {
      // The store failed, and leaves the blob that was staged before as it was.
      if let replaced { putBack(replaced) }
      throw error
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

  private func putBack(_ staged: Staged) {
    let key = staged.blob.key
    state.change { state in
      state.inHand[key] = nil
      if state.waiting[key] == nil {
        state.waiting[key] = (staged, state.line.ticket())
      } else {
        state.byteCount -= staged.cost
      }
      lineUp(key, &state)
      noteCount(state)
    }
  }

  /// Puts a key back to its place in the line, if a blob waits for it.
  private func lineUp(_ key: BlobKey, _ state: inout State) {
    if let ticket = state.waiting[key]?.ticket { state.line.append(key, ticket) }
  }

  /// Takes a waiting blob out.
  private func take(_ key: BlobKey, _ state: inout State) -> Staged? {
    guard let waiting = state.waiting.removeValue(forKey: key) else { return nil }
    _ = state.line.remove(waiting.ticket)
    state.byteCount -= waiting.staged.cost
    return waiting.staged
  }

  private func noteCount(_ state: State) {
    count.store(state.waiting.count + state.inHand.count, ordering: .releasing)
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
      guard !state.waiting.isEmpty, !state.isWriterComing else { return false }
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
      if let key = state.line.popFirst() { return .done(putInHand(key, &state)) }
      guard !state.waiting.isEmpty, !state.hasWaitingWriter else { return .done(nil) }
      state.hasWaitingWriter = true
      isWaiting = true
      return .wait(nil)
    }
  }

  private func putInHand(_ key: BlobKey, _ state: inout State) -> Staged? {
    guard let staged = take(key, &state) else { return nil }
    state.byteCount += staged.cost
    state.inHand[key] = staged
    noteCount(state)
    return staged
  }

  /// The blob that waits for a key, once no other is being written for it. Blocks.
  ///
  /// The caller says `finish`.
  ///
  /// - Returns: nil if nothing waits.
  func next(for key: BlobKey) -> Staged? {
    state.wait { state in
      guard state.inHand[key] == nil else { return .wait(nil) }
      return .done(putInHand(key, &state))
    }
  }

  /// The blob in hand is on disk, or will never be.
  func finish(_ key: BlobKey, _ failure: (any Error)?) {
    state.change { state in
      guard let staged = state.inHand.removeValue(forKey: key) else { return }
      state.byteCount -= staged.cost
      lineUp(key, &state)
      if let failure, state.failures.count < Self.mostFailures || state.failures[key] != nil {
        state.failures[key] = failure
      }
      noteCount(state)
    }
  }

  /// Closes the area once all is written. Blocks while others have all blobs in hand.
  ///
  /// - Returns: false if a blob waits and is in no hand, as when a write has failed.
  func closeIfEmpty() -> Bool {
    state.wait { state in
      if state.waiting.keys.contains(where: { state.inHand[$0] == nil }) { return .done(false) }
      guard state.inHand.isEmpty else { return .wait(nil) }
      state.isClosed = true
      return .done(true)
    }
  }

  /// The keys that wait or are in hand.
  var keys: [BlobKey] {
    state.look { Array(Set($0.waiting.keys).union($0.inHand.keys)) }
  }

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
