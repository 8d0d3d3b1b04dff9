internal import BlobRecord
internal import Locks

/// The stores and removals on their way to a remote engine: the latest of each key, and one of a key at a time.
///
/// Workers carry them out; each is a task that ends when nothing can be done now. An alarm wakes them when something can.
final class RemoteChanges: Sendable {
  enum Change: Sendable {
    case put(RemoteRecord)
    /// Makes the engine's object what the directory has when its turn comes, or removes it.
    case putFromDirectory
    /// Puts what the directory has once more; nothing, if it has nothing.
    case putAgain
    case remove

    var byteCount: Int {
      if case .put(let record) = self { record.byteCount } else { 0 }
    }
    /// Whether the engine's object is another blob's until it is carried out.
    var replaces: Bool {
      switch self {
      case .put, .putFromDirectory: true
      case .putAgain, .remove: false
      }
    }
    var isRemoval: Bool {
      if case .remove = self { true } else { false }
    }
  }

  fileprivate struct Waiting {
    let change: Change
    /// Its place in the order.
    let number: UInt64
    /// How often it was tried in vain.
    var failures = 0
    var waiters: [CheckedContinuation<RemoteOutcome, Never>] = []
  }

  fileprivate struct State {
    var waiting: [BlobKey: Waiting] = [:]
    /// Stores with their bytes, and what takes none, each in the order in which they came.
    var (stores, others) = (KeyQueue(), KeyQueue())
    /// Those that are not tried again before a task has slept.
    var delayed: [BlobKey: Task<Void, Never>] = [:]
    var nextNumber: UInt64 = 0
    /// What is under way, with those who wait for it.
    var running: [BlobKey: (change: Change, waiters: [CheckedContinuation<RemoteOutcome, Never>])] = [:]
    var byteCount = 0
    /// By numbers of their own.
    var workers: [UInt64: Task<Void, Never>] = [:]
    var alarm: Task<Void, Never>?
    var isClosed = false
    var drained: [CheckedContinuation<Void, Never>] = []
    /// Keys whose removals the engine did not take: what it has of them is not to be answered.
    var hidden: Set<BlobKey> = []

    mutating func number() -> UInt64 {
      defer { nextNumber += 1 }
      return nextNumber
    }

    mutating func put(
      _ change: Change, of key: BlobKey, failures: Int = 0, waiters: [CheckedContinuation<RemoteOutcome, Never>]
    ) {
      let number = number()
      waiting[key] = Waiting(change: change, number: number, failures: failures, waiters: waiters)
      byteCount += change.byteCount
      if change.byteCount > 0 { stores.append(key, number) } else { others.append(key, number) }
    }

    mutating func take(_ key: BlobKey) -> Waiting? {
      guard let taken = waiting.removeValue(forKey: key) else { return nil }
      if taken.change.byteCount > 0 { stores.remove(taken.number) } else { others.remove(taken.number) }
      delayed.removeValue(forKey: key)?.cancel()
      byteCount -= taken.change.byteCount
      return taken
    }

    /// Takes those who wait for changes that are not under way. The changes stay.
    mutating func takeWaiters() -> [CheckedContinuation<RemoteOutcome, Never>] {
      var taken: [CheckedContinuation<RemoteOutcome, Never>] = []
      for (key, waiting) in waiting where !waiting.waiters.isEmpty {
        taken += waiting.waiters
        self.waiting[key]?.waiters = []
      }
      return taken
    }

    /// The change that came first of those that can be carried out now.
    mutating func next() -> BlobKey? {
      let (running, delayed) = (running, delayed)
      func isFree(_ key: BlobKey) -> Bool { running[key] == nil && delayed[key] == nil }
      let (store, other) = (stores.first(where: isFree), others.first(where: isFree))
      guard let store, let other else { return store?.key ?? other?.key }
      return store.number < other.number ? store.key : other.key
    }
  }

  /// Changes without bytes that wait at the most; each takes some hundred bytes.
  static let mostWithoutBytes = 10_000

  private let requests: RemoteRequests
  private let byteLimit: Int
  private let mostWorkers: Int
  private let state = Lock(State())

  init(by requests: RemoteRequests) {
    self.requests = requests
    byteLimit = requests.tier.waitingByteLimit
    mostWorkers = requests.tier.maxConcurrentChanges
  }

  /// Whether the engine may not have the latest of a key.
  func isPending(_ key: BlobKey) -> Bool {
    state.withLock { $0.waiting[key] != nil || $0.running[key] != nil || $0.hidden.contains(key) }
  }

  /// Changes that wait or are under way, and the bytes of those that wait.
  var load: (changes: Int, bytes: Int) { state.withLock { ($0.waiting.count + $0.running.count, $0.byteCount) } }

  /// Puts a change in the place of the key's that waits.
  ///
  /// - Parameter givesWay: whether the one that waits stays, if there is one.
  func add(_ change: Change, of key: BlobKey, givesWay: Bool = false) {
    // What is larger than all that may wait is read again when its turn comes.
    let change = change.byteCount > byteLimit ? .putFromDirectory : change
    let dropped = state.withLock { state -> [(BlobKey, Waiting)] in
      guard !state.isClosed else { return [(key, Waiting(change: change, number: 0))] }
      if givesWay, state.waiting[key] != nil { return [] }
      // What the earlier change would have done, this one does: those who wait for it wait for this.
      state.put(change, of: key, waiters: state.take(key)?.waiters ?? [])
      var dropped: [(BlobKey, Waiting)] = []
      while state.byteCount > byteLimit, let oldest = state.stores.first(where: { _ in true }),
        let taken = state.take(oldest.key)
      {
        dropped.append((oldest.key, taken))
      }
      while state.others.count > Self.mostWithoutBytes, let oldest = state.others.first(where: { _ in true }),
        let taken = state.take(oldest.key)
      {
        state.hide(oldest.key)
        dropped.append((oldest.key, taken))
      }
      return dropped
    }
    for (key, waiting) in dropped { drop(key, waiting) }
    wake()
  }

  /// Puts a change into the line, unless the key has one, which does the same or more.
  func addUnlessPending(_ change: Change, of key: BlobKey) {
    guard !isPending(key) else { return }
    add(change, of: key, givesWay: true)
  }

  private func drop(_ key: BlobKey, _ waiting: Waiting) {
    requests.didDrop(key, isRemoval: waiting.change.isRemoval)
    for waiter in waiting.waiters { waiter.resume(returning: .dropped) }
    if waiting.change.byteCount > 0 { invalidate(key) }
  }

  /// Takes away what the engine has of a key whose store it did not get: an earlier blob must not come back.
  private func invalidate(_ key: BlobKey) {
    guard !state.withLock({ $0.isClosed }) else { return }
    add(.remove, of: key, givesWay: true)
  }

  /// Waits until the key's change is carried out, dropped, or not tried for a while.
  func settled(_ key: BlobKey) async -> RemoteOutcome {
    let isLeftAlone = requests.pause != nil
    return await withCheckedContinuation { continuation in
      let known = state.withLock { state -> RemoteOutcome? in
        if let waiting = state.waiting[key] {
          // The next try of a store is soon.
          if isLeftAlone || waiting.change.isRemoval && state.delayed[key] != nil { return .postponed }
          state.waiting[key]?.waiters.append(continuation)
        } else if state.running[key] != nil {
          state.running[key]?.waiters.append(continuation)
        } else {
          return state.hidden.contains(key) ? .dropped : .done
        }
        return nil
      }
      if let known { continuation.resume(returning: known) }
    }
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
    let (dropped, drained, tasks) = state.withLock { state in
      state.isClosed = true
      let dropped = state.waiting
      for key in dropped.keys { _ = state.take(key) }
      defer { (state.drained, state.alarm) = ([], nil) }
      return (dropped, state.drained, Array(state.workers.values) + [state.alarm].compactMap(\.self))
    }
    for task in tasks { task.cancel() }
    for (key, waiting) in dropped { drop(key, waiting) }
    for waiter in drained { waiter.resume() }
  }
}

// MARK: - Carrying out

extension RemoteChanges {
  /// Begins as many workers as have something to do, or sets the alarm.
  private func wake() {
    let pause = requests.pause
    let postponed = state.withLock { state -> [CheckedContinuation<RemoteOutcome, Never>] in
      guard !state.isClosed, !state.waiting.isEmpty else { return [] }
      if pause == nil, state.workers.count < mostWorkers, state.next() != nil {
        let number = state.number()
        state.workers[number] = Task { await self.work(number) }
        return []
      }
      // A worker that ends a change looks again, and so does one that has slept for it.
      guard let pause else { return [] }
      let postponed = state.takeWaiters()
      guard state.alarm == nil, state.workers.isEmpty else { return postponed }
      state.alarm = Task { [clock = requests.tier.clock] in
        // The sleep's only error is its cancellation: the cache is closed.
        guard (try? await clock.sleep(for: max(pause, .milliseconds(1)))) != nil else { return }
        self.state.withLock { $0.alarm = nil }
        self.wake()
      }
      return postponed
    }
    // A pause may be long, and no caller waits for its end.
    for waiter in postponed { waiter.resume(returning: .postponed) }
  }

  private func work(_ number: UInt64) async {
    while let (key, waiting) = begin() {
      // Others may begin beside it.
      wake()
      await carryOut(waiting, of: key)
    }
    let drained = state.withLock { state in
      state.workers[number] = nil
      guard state.waiting.isEmpty, state.running.isEmpty else { return [CheckedContinuation<Void, Never>]() }
      defer { state.drained = [] }
      return state.drained
    }
    for waiter in drained { waiter.resume() }
    wake()
  }

  private func begin() -> (BlobKey, Waiting)? {
    let pause = requests.pause
    return state.withLock { state in
      guard pause == nil, !state.isClosed, let key = state.next(), let taken = state.take(key) else {
        return nil
      }
      state.running[key] = (taken.change, taken.waiters)
      return (key, taken)
    }
  }

  /// Tries a change once.
  private func carryOut(_ waiting: Waiting, of key: BlobKey) async {
    do throws(RemoteError) {
      switch waiting.change {
      case .put(let record): try await requests.put(record, of: key)
      case .putFromDirectory: try await requests.putFromDirectory(key, orRemove: true)
      case .putAgain: try await requests.putFromDirectory(key, orRemove: false)
      case .remove: try await requests.remove(key)
      }
      end(key, .done)
    } catch {
      if error.wasNotTried {
        again(waiting, of: key, failures: waiting.failures)
      } else if error.mayPass, waiting.change.isRemoval || waiting.failures == 0 {
        // A removal is tried until it succeeds: else what was removed would come back.
        again(waiting, of: key, failures: waiting.failures + 1)
      } else {
        requests.didDrop(key, isRemoval: waiting.change.isRemoval)
        if waiting.change.isRemoval { state.withLock { $0.hide(key) } }
        end(key, .dropped)
        if waiting.change.replaces { invalidate(key) }
      }
    }
  }

  /// Puts a change back, for another try.
  private func again(_ waiting: Waiting, of key: BlobKey, failures: Int) {
    let delay = failures > waiting.failures ? requests.pauseAfter(failures) : .zero
    // The next try of a store is soon: those who wait for it go on.
    let goesOn = !waiting.change.isRemoval && requests.pause == nil
    let (waiters, isClosed) = state.withLock { state -> ([CheckedContinuation<RemoteOutcome, Never>], Bool) in
      let waiters = state.running.removeValue(forKey: key)?.waiters ?? []
      guard !state.isClosed else { return (waiters, true) }
      if state.waiting[key] != nil {
        // A later one has come.
        state.waiting[key]?.waiters += waiters
        return ([], false)
      }
      state.put(waiting.change, of: key, failures: failures, waiters: goesOn ? waiters : [])
      if delay > .zero {
        state.delayed[key] = Task { [clock = requests.tier.clock] in
          // The sleep's only error is its cancellation: the change was taken, or the cache is closed.
          guard (try? await clock.sleep(for: delay)) != nil else { return }
          self.state.withLock { $0.delayed[key] = nil }
          self.wake()
        }
      }
      return (goesOn ? [] : waiters, false)
    }
    if isClosed { requests.didDrop(key, isRemoval: waiting.change.isRemoval) }
    for waiter in waiters { waiter.resume(returning: isClosed ? .dropped : .postponed) }
  }

  private func end(_ key: BlobKey, _ outcome: RemoteOutcome) {
    let waiters = state.withLock { state in
      if outcome == .done { state.hidden.remove(key) }
      return state.running.removeValue(forKey: key)?.waiters ?? []
    }
    for waiter in waiters { waiter.resume(returning: outcome) }
  }
}

extension RemoteChanges.State {
  fileprivate mutating func hide(_ key: BlobKey) {
    // Room for as many as may wait. Of more, some may come back: Spec/Remote.md, T7.
    if hidden.count >= RemoteChanges.mostWithoutBytes { hidden.removeFirst() }
    hidden.insert(key)
  }
}

/// Keys in the order in which they came.
private struct KeyQueue {
  private var keys: [UInt64: BlobKey] = [:]
  private var (start, end): (UInt64, UInt64) = (0, 0)

  var count: Int { keys.count }

  /// - Parameter number: higher than any before.
  mutating func append(_ key: BlobKey, _ number: UInt64) {
    if keys.isEmpty { start = number }
    keys[number] = key
    end = number + 1
  }

  mutating func remove(_ number: UInt64) { keys[number] = nil }

  /// - Complexity: O(*n*) for *n* keys that come before it, and the gaps between them.
  mutating func first(where isIncluded: (BlobKey) -> Bool) -> (key: BlobKey, number: UInt64)? {
    while start < end, keys[start] == nil { start += 1 }
    var number = start
    while number < end {
      if let key = keys[number], isIncluded(key) { return (key, number) }
      number += 1
    }
    return nil
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
