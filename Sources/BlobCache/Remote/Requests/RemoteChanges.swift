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

  /// A change, and how often it was tried in vain.
  fileprivate struct Attempt: PendingChange {
    let change: Change
    var failures = 0
    var byteCost: Int { change.byteCount }
  }

  /// What a task waits for.
  fileprivate enum Awaited: Hashable {
    case pending(BlobKey)
    case inProgress(BlobKey)
    case drained
  }

  fileprivate typealias Waiter = SuspendedTask<RemoteOutcome, Void>

  fileprivate struct State {
    var changes = LatestByKey<BlobKey, Attempt>()
    var waiters = WaitList<Waiter>()
    /// Their tickets, by what they wait for. Some may have left.
    var tickets: [Awaited: [WaitList<Waiter>.Ticket]] = [:]
    /// Those that are not tried again before a task has slept.
    var delayed: [BlobKey: Task<Void, Never>] = [:]
    /// By numbers of their own.
    var workers: [UInt64: Task<Void, Never>] = [:]
    var nextWorker: UInt64 = 0
    var alarm: Task<Void, Never>?
    var isClosed = false
    /// Keys whose removals the engine did not take: what it has of them is not to be answered.
    var hidden: Set<BlobKey> = []

    mutating func take(_ key: BlobKey) -> Attempt? {
      guard let taken = changes.take(key) else { return nil }
      delayed.removeValue(forKey: key)?.cancel()
      return taken
    }

    /// The change that came first of those that can be carried out now.
    mutating func next() -> BlobKey? {
      let delayed = delayed
      return changes.next { delayed[$0] == nil }
    }

    mutating func takeWaiters(for awaited: Awaited) -> [Waiter] {
      tickets.removeValue(forKey: awaited)?.compactMap { waiters.remove($0) } ?? []
    }

    /// Makes the tasks that wait for something wait for something else.
    mutating func moveWaiters(from awaited: Awaited, to other: Awaited) {
      if let moved = tickets.removeValue(forKey: awaited) { tickets[other, default: []] += moved }
    }

    /// Takes those who wait for changes that are not under way. The changes stay.
    mutating func takePostponed() -> [Waiter] {
      changes.pendingKeys.flatMap { takeWaiters(for: .pending($0)) }
    }

    mutating func takeDrained() -> [Waiter] { changes.isEmpty ? takeWaiters(for: .drained) : [] }
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
    state.withLock { $0.changes.has(key) || $0.hidden.contains(key) }
  }

  /// Changes that wait or are under way, and the bytes of those that wait.
  var load: (changes: Int, bytes: Int) { state.withLock { ($0.changes.count, $0.changes.pendingCost) } }

  /// Puts a change in the place of the key's that waits.
  ///
  /// - Parameter givesWay: whether the one that waits stays, if there is one.
  func add(_ change: Change, of key: BlobKey, givesWay: Bool = false) {
    // What is larger than all that may wait is read again when its turn comes.
    let change = change.byteCount > byteLimit ? .putFromDirectory : change
    let dropped = state.withLock { state -> [Dropped] in
      guard !state.isClosed else { return [Dropped(key: key, change: change, waiters: [])] }
      if givesWay, state.changes.pendingChange(of: key) != nil { return [] }
      // What the earlier change would have done, this one does: those who wait for it wait for this.
      _ = state.take(key)
      state.changes.put(Attempt(change: change), for: key, keepsPlace: false)
      return state.dropExcess(byteLimit)
    }
    for dropped in dropped { drop(dropped) }
    wake()
  }

  /// Puts a change into the line, unless the key has one, which does the same or more.
  func addUnlessPending(_ change: Change, of key: BlobKey) {
    guard !isPending(key) else { return }
    add(change, of: key, givesWay: true)
  }

  fileprivate struct Dropped {
    let key: BlobKey
    let change: Change
    let waiters: [Waiter]
  }

  private func drop(_ dropped: Dropped) {
    requests.didDrop(dropped.key, isRemoval: dropped.change.isRemoval)
    for waiter in dropped.waiters { waiter.continuation.resume(returning: .dropped) }
    if dropped.change.byteCount > 0 { invalidate(dropped.key) }
  }

  /// Takes away what the engine has of a key whose store it did not get: an earlier blob must not come back.
  private func invalidate(_ key: BlobKey) {
    guard !state.withLock({ $0.isClosed }) else { return }
    add(.remove, of: key, givesWay: true)
  }

  /// Waits until the key's change is carried out, dropped, or not tried for a while.
  ///
  /// - Throws: `CancellationError` if the task is cancelled. The change goes on after it.
  func settled(_ key: BlobKey) async throws -> RemoteOutcome {
    let isCircuitOpen = requests.pause != nil
    return try await state.wait(in: \.waiters, for: ()) { state, ticket in
      if let change = state.changes.pendingChange(of: key)?.change {
        // The next try of a store is soon.
        if isCircuitOpen || change.isRemoval && state.delayed[key] != nil { return .postponed }
        state.tickets[.pending(key), default: []].append(ticket)
      } else if state.changes.inProgress[key] != nil {
        state.tickets[.inProgress(key), default: []].append(ticket)
      } else {
        return state.hidden.contains(key) ? .dropped : .done
      }
      return nil
    }
  }

  /// Waits until nothing waits or is under way.
  ///
  /// - Throws: `CancellationError` if the task is cancelled.
  func drain() async throws {
    _ = try await state.wait(in: \.waiters, for: ()) { state, ticket in
      if state.changes.isEmpty { return .done }
      state.tickets[.drained, default: []].append(ticket)
      return nil
    }
  }

  /// Drops what waits, lets nothing in any more, and ends what is under way.
  func close() {
    let (dropped, drained, tasks) = state.withLock { state in
      state.isClosed = true
      let dropped = state.changes.pendingKeys.compactMap { state.drop($0) }
      defer { state.alarm = nil }
      return (
        dropped, state.takeWaiters(for: .drained), Array(state.workers.values) + [state.alarm].compactMap(\.self)
      )
    }
    for task in tasks { task.cancel() }
    for dropped in dropped { drop(dropped) }
    for waiter in drained { waiter.continuation.resume(returning: .dropped) }
  }
}

// MARK: - Carrying out

extension RemoteChanges {
  /// Begins as many workers as have something to do, or sets the alarm.
  private func wake() {
    let pause = requests.pause
    let postponed = state.withLock { state -> [Waiter] in
      guard !state.isClosed, state.changes.hasPending else { return [] }
      if pause == nil, state.workers.count < mostWorkers, state.next() != nil {
        let number = state.nextWorker
        state.nextWorker += 1
        state.workers[number] = Task { await self.work(number) }
        return []
      }
      // A worker that ends a change looks again, and so does one that has slept for it.
      guard let pause else { return [] }
      let postponed = state.takePostponed()
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
    for waiter in postponed { waiter.continuation.resume(returning: .postponed) }
  }

  private func work(_ number: UInt64) async {
    while let (key, attempt) = begin() {
      // Others may begin beside it.
      wake()
      await carryOut(attempt, of: key)
    }
    let drained = state.withLock { state in
      state.workers[number] = nil
      return state.takeDrained()
    }
    for waiter in drained { waiter.continuation.resume(returning: .done) }
    wake()
  }

  private func begin() -> (BlobKey, Attempt)? {
    let pause = requests.pause
    return state.withLock { state in
      guard pause == nil, !state.isClosed, let key = state.next(), let begun = state.changes.begin(key) else {
        return nil
      }
      state.moveWaiters(from: .pending(key), to: .inProgress(key))
      return (key, begun)
    }
  }

  /// Tries a change once.
  private func carryOut(_ attempt: Attempt, of key: BlobKey) async {
    do throws(RemoteError) {
      switch attempt.change {
      case .put(let record): try await requests.put(record, of: key)
      case .putFromDirectory: try await requests.putFromDirectory(key, orRemove: true)
      case .putAgain: try await requests.putFromDirectory(key, orRemove: false)
      case .remove: try await requests.remove(key)
      }
      end(key, .done)
    } catch {
      if error.wasNotTried {
        again(attempt, of: key, failures: attempt.failures)
      } else if error.mayPass, attempt.change.isRemoval || attempt.failures == 0 {
        // A removal is tried until it succeeds: else what was removed would come back.
        again(attempt, of: key, failures: attempt.failures + 1)
      } else {
        requests.didDrop(key, isRemoval: attempt.change.isRemoval)
        if attempt.change.isRemoval { state.withLock { $0.hide(key) } }
        end(key, .dropped)
        if attempt.change.replaces { invalidate(key) }
      }
    }
  }

  /// Puts a change back, for another try.
  private func again(_ attempt: Attempt, of key: BlobKey, failures: Int) {
    let delay = failures > attempt.failures ? requests.pauseAfter(failures) : .zero
    // The next try of a store is soon: those who wait for it go on.
    let goesOn = !attempt.change.isRemoval && requests.pause == nil
    let (waiters, isClosed) = state.withLock { state -> ([Waiter], Bool) in
      state.changes.end(key)
      guard !state.isClosed else { return (state.takeWaiters(for: .inProgress(key)), true) }
      if state.changes.pendingChange(of: key) != nil {
        // A later one has come.
        state.moveWaiters(from: .inProgress(key), to: .pending(key))
        return ([], false)
      }
      state.changes.put(Attempt(change: attempt.change, failures: failures), for: key, keepsPlace: false)
      if goesOn { state.moveWaiters(from: .inProgress(key), to: .pending(key)) }
      if delay > .zero {
        state.delayed[key] = Task { [clock = requests.tier.clock] in
          // The sleep's only error is its cancellation: the change was taken, or the cache is closed.
          guard (try? await clock.sleep(for: delay)) != nil else { return }
          self.state.withLock { $0.delayed[key] = nil }
          self.wake()
        }
      }
      return (state.takeWaiters(for: .inProgress(key)), false)
    }
    if isClosed { requests.didDrop(key, isRemoval: attempt.change.isRemoval) }
    for waiter in waiters { waiter.continuation.resume(returning: isClosed ? .dropped : .postponed) }
  }

  private func end(_ key: BlobKey, _ outcome: RemoteOutcome) {
    let waiters = state.withLock { state in
      if outcome == .done { state.hidden.remove(key) }
      state.changes.end(key)
      return state.takeWaiters(for: .inProgress(key))
    }
    for waiter in waiters { waiter.continuation.resume(returning: outcome) }
  }
}

extension RemoteChanges.State {
  /// Takes a pending change out, with those who wait for it.
  fileprivate mutating func drop(_ key: BlobKey) -> RemoteChanges.Dropped? {
    guard let taken = take(key) else { return nil }
    return RemoteChanges.Dropped(key: key, change: taken.change, waiters: takeWaiters(for: .pending(key)))
  }

  /// Takes out the oldest changes that are too many.
  fileprivate mutating func dropExcess(_ byteLimit: Int) -> [RemoteChanges.Dropped] {
    var dropped: [RemoteChanges.Dropped] = []
    while changes.pendingCost > byteLimit, let oldest = changes.oldest(isCostly: true), let excess = drop(oldest) {
      dropped.append(excess)
    }
    while changes.freeCount > RemoteChanges.mostWithoutBytes, let oldest = changes.oldest(isCostly: false),
      let excess = drop(oldest)
    {
      hide(oldest)
      dropped.append(excess)
    }
    return dropped
  }

  fileprivate mutating func hide(_ key: BlobKey) {
    // Room for as many as may wait. Of more, some may come back: Spec/Remote.md, T7.
    if hidden.count >= RemoteChanges.mostWithoutBytes { hidden.removeFirst() }
    hidden.insert(key)
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
