internal import BlobRecord
internal import Locks

/// The stores and removals on their way to a remote engine: the latest of each key, and one of a key at a time.
///
/// Workers carry them out; each is a task that ends when nothing waits.
final class RemoteChanges: Sendable {
  enum Change: Sendable {
    case put(RemoteRecord)
    /// The record that the directory has when its turn comes.
    case putFromDirectory
    case remove

    var byteCount: Int {
      if case .put(let record) = self { record.byteCount } else { 0 }
    }
    var isRemoval: Bool {
      if case .remove = self { true } else { false }
    }
  }

  private struct Waiting {
    let change: Change
    /// Its place in the order.
    let number: UInt64
    var waiters: [CheckedContinuation<RemoteOutcome, Never>] = []
  }

  private struct State {
    /// What waits, and the keys in the order in which their changes came.
    var waiting: [BlobKey: Waiting] = [:]
    var order: [UInt64: BlobKey] = [:]
    var (first, next): (UInt64, UInt64) = (0, 0)
    /// What is under way, with those who wait for it.
    var running: [BlobKey: (change: Change, waiters: [CheckedContinuation<RemoteOutcome, Never>])] = [:]
    var byteCount = 0
    /// By numbers of their own.
    var workers: [UInt64: Task<Void, Never>] = [:]
    var isClosed = false
    var drained: [CheckedContinuation<Void, Never>] = []

    mutating func take(_ key: BlobKey) -> Waiting? {
      guard let taken = waiting.removeValue(forKey: key) else { return nil }
      order[taken.number] = nil
      byteCount -= taken.change.byteCount
      return taken
    }

    /// The key whose change came first, of those that `isIncluded`.
    mutating func oldest(where isIncluded: (BlobKey, Change) -> Bool) -> BlobKey? {
      while first < next, order[first] == nil { first += 1 }
      var number = first
      while number < next {
        if let key = order[number], let found = waiting[key], isIncluded(key, found.change) { return key }
        number += 1
      }
      return nil
    }
  }

  /// Removals that wait at the most; each takes some hundred bytes.
  private static let mostRemovals = 10_000

  private let requests: RemoteRequests
  private let byteLimit: Int
  private let mostWorkers: Int
  private let state = Lock(State())

  init(by requests: RemoteRequests) {
    self.requests = requests
    byteLimit = requests.tier.waitingByteLimit
    mostWorkers = requests.tier.maxConcurrentChanges
  }

  /// Whether the engine may not have the latest of a key yet.
  func isPending(_ key: BlobKey) -> Bool { state.withLock { $0.waiting[key] != nil || $0.running[key] != nil } }

  /// Changes that wait or are under way, and the bytes of those that wait.
  var load: (changes: Int, bytes: Int) { state.withLock { ($0.waiting.count + $0.running.count, $0.byteCount) } }

  /// Puts a change in the place of the key's that waits.
  ///
  /// - Parameter givesWay: whether the one that waits stays, if there is one.
  func add(_ change: Change, of key: BlobKey, givesWay: Bool = false) {
    let dropped = state.withLock { state -> [(BlobKey, Waiting)] in
      guard !state.isClosed else { return [(key, Waiting(change: change, number: 0))] }
      if givesWay, state.waiting[key] != nil { return [] }
      // What the earlier change would have done, this one does: those who wait for it wait for this.
      let waiters = state.take(key)?.waiters ?? []
      state.waiting[key] = Waiting(change: change, number: state.next, waiters: waiters)
      state.order[state.next] = key
      state.next += 1
      state.byteCount += change.byteCount
      var dropped: [(BlobKey, Waiting)] = []
      while state.byteCount > byteLimit, let oldest = state.oldest(where: { $1.byteCount > 0 }),
        let taken = state.take(oldest)
      {
        dropped.append((oldest, taken))
      }
      while state.waiting.count > Self.mostRemovals, let oldest = state.oldest(where: { $1.byteCount == 0 }),
        let taken = state.take(oldest)
      {
        dropped.append((oldest, taken))
      }
      if state.workers.count < mostWorkers, !state.waiting.isEmpty {
        let number = state.next
        state.workers[number] = Task { await self.work(number) }
      }
      return dropped
    }
    for (key, waiting) in dropped { drop(key, waiting) }
  }

  private func drop(_ key: BlobKey, _ waiting: Waiting) {
    requests.didDrop(key, isRemoval: waiting.change.isRemoval)
    for waiter in waiting.waiters { waiter.resume(returning: .dropped) }
    if !waiting.change.isRemoval { invalidate(key) }
  }

  /// Takes away what the engine has of a key whose store it did not get: an earlier blob must not come back.
  private func invalidate(_ key: BlobKey) {
    guard !state.withLock({ $0.isClosed }) else { return }
    add(.remove, of: key, givesWay: true)
  }

  /// Waits until the key's change is carried out, postponed or dropped.
  func settled(_ key: BlobKey) async -> RemoteOutcome {
    await withCheckedContinuation { continuation in
      let isDone = state.withLock { state in
        if state.waiting[key] != nil {
          state.waiting[key]?.waiters.append(continuation)
        } else if state.running[key] != nil {
          state.running[key]?.waiters.append(continuation)
        } else {
          return true
        }
        return false
      }
      if isDone { continuation.resume(returning: .done) }
    }
  }

  private func work(_ number: UInt64) async {
    while let (key, change) = begin(number) {
      end(key, await carryOut(change, of: key))
    }
  }

  private func begin(_ worker: UInt64) -> (BlobKey, Change)? {
    let (begun, drained) = state.withLock { state -> ((BlobKey, Change)?, [CheckedContinuation<Void, Never>]) in
      let running = state.running
      guard let key = state.oldest(where: { key, _ in running[key] == nil }), let taken = state.take(key) else {
        state.workers[worker] = nil
        guard state.waiting.isEmpty, state.running.isEmpty else { return (nil, []) }
        defer { state.drained = [] }
        return (nil, state.drained)
      }
      state.running[key] = (taken.change, taken.waiters)
      return ((key, taken.change), [])
    }
    for waiter in drained { waiter.resume() }
    return begun
  }

  /// Lets go those who wait for a change under way.
  private func release(_ key: BlobKey, _ outcome: RemoteOutcome) {
    let waiters = state.withLock { state in
      defer { state.running[key]?.waiters = [] }
      return state.running[key]?.waiters ?? []
    }
    for waiter in waiters { waiter.resume(returning: outcome) }
  }

  private func end(_ key: BlobKey, _ outcome: RemoteOutcome) {
    let waiters = state.withLock { $0.running.removeValue(forKey: key)?.waiters ?? [] }
    for waiter in waiters { waiter.resume(returning: outcome) }
  }

  /// Waits until nothing waits or is under way.
  func drain() async {
    await withCheckedContinuation { continuation in
      let isDrained = state.withLock { state in
        if state.waiting.isEmpty, state.running.isEmpty { return true }
        state.drained.append(continuation)
        return false
      }
      if isDrained { continuation.resume() }
    }
  }

  /// Drops what waits, lets nothing in any more, and ends what is under way.
  func close() {
    let (dropped, drained, workers) = state.withLock { state in
      state.isClosed = true
      let dropped = state.waiting
      state.waiting = [:]
      state.order = [:]
      state.byteCount = 0
      defer { state.drained = [] }
      return (dropped, state.drained, state.workers)
    }
    for worker in workers.values { worker.cancel() }
    for (key, waiting) in dropped { drop(key, waiting) }
    for waiter in drained { waiter.resume() }
  }
}

// MARK: - Carrying out

extension RemoteChanges {
  /// Carries a change out, with all its tries.
  private func carryOut(_ change: Change, of key: BlobKey) async -> RemoteOutcome {
    var failures = 0
    while isLatest(of: key) {
      if let pause = requests.pause {
        // It may be long: those who wait are let go.
        release(key, .postponed)
        try? await requests.tier.clock.sleep(for: pause)
        continue
      }
      do throws(RemoteError) {
        switch change {
        case .put(let record): try await requests.put(record, of: key)
        case .putFromDirectory: try await requests.putFromDirectory(key)
        case .remove: try await requests.remove(key)
        }
        return .done
      } catch {
        failures += 1
        // A removal is tried until it succeeds: else what was removed would come back.
        guard change.isRemoval || error.mayPass && failures < 2 else {
          requests.didDrop(key, isRemoval: false)
          invalidate(key)
          return .dropped
        }
        if change.isRemoval { release(key, .postponed) }
        try? await requests.tier.clock.sleep(for: requests.pauseAfter(failures))
      }
    }
    // A later change of the key is on its way, or the cache is closed.
    let isClosed = state.withLock { $0.isClosed }
    if isClosed { requests.didDrop(key, isRemoval: change.isRemoval) }
    return isClosed ? .dropped : .postponed
  }

  private func isLatest(of key: BlobKey) -> Bool {
    state.withLock { $0.waiting[key] == nil && !$0.isClosed }
  }
}

/// What has become of a store or a removal in a remote tier.
public enum RemoteOutcome: String, Sendable {
  case done
  /// The engine has failed, or is left alone; it is tried later.
  case postponed
  /// It is not tried again; an event tells of it.
  case dropped
}
