internal import BlobRecord
internal import Locks

/// The pending stores and removals of a remote engine: the latest change and at most one request of each key.
///
/// Workers are tasks that carry out changes, and end if no change is ready. An alarm starts them again after a pause.
final class RemoteChanges: Sendable {
  enum Change: Sendable {
    case put(RemoteRecord)
    /// Uploads the directory's record when the change runs, or removes the object of a missing record.
    case putFromDirectory
    /// Uploads the directory's record again, if there is one.
    case putAgain
    case remove

    var byteCount: Int {
      if case .put(let record) = self { record.byteCount } else { 0 }
    }
    /// A Boolean value that indicates whether the engine's object is outdated until the change is done.
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

  fileprivate struct Attempt: PendingChange {
    let change: Change
    var failures = 0
    /// The kind of request that the change makes next.
    var kind: RemoteRequests.Kind
    var byteCost: Int { change.byteCount }

    init(_ change: Change) {
      self.change = change
      kind = change.isRemoval ? .removal : .store
    }
  }

  /// The remaining times for which no store or no removal is sent, by the kinds that are paused.
  fileprivate typealias Pauses = [RemoteRequests.Kind: Duration]

  fileprivate enum Awaited: Hashable {
    case pending(BlobKey)
    case inProgress(BlobKey)
    case drained
  }

  fileprivate typealias Waiter = SuspendedTask<RemoteOutcome, Void>

  fileprivate struct State {
    var changes = LatestByKey<BlobKey, Attempt>()
    var waiters = WaitList<Waiter>()
    /// The tickets of waiters, by the awaited event. Some waiters may have left.
    var tickets: [Awaited: [WaitList<Waiter>.Ticket]] = [:]
    /// The changes that are retried after a delay, with the task that waits for the delay.
    var delayed: [BlobKey: Task<Void, Never>] = [:]
    var workers: [UInt64: Task<Void, Never>] = [:]
    var nextWorker: UInt64 = 0
    /// The tasks that wait for the end of a pause, by the paused kind of request.
    var alarms: [RemoteRequests.Kind: Task<Void, Never>] = [:]
    var isClosed = false
    /// Keys whose removal the engine did not accept, so that the engine's records of them must not be returned.
    var hidden: Set<BlobKey> = []

    mutating func take(_ key: BlobKey) -> Attempt? {
      guard let taken = changes.take(key) else { return nil }
      delayed.removeValue(forKey: key)?.cancel()
      return taken
    }

    mutating func next(_ pauses: Pauses) -> BlobKey? {
      let (delayed, pending) = (delayed, changes)
      return changes.next { key in
        guard delayed[key] == nil, let attempt = pending.pendingChange(of: key) else { return false }
        return pauses[attempt.kind] == nil
      }
    }

    mutating func takeWaiters(for awaited: Awaited) -> [Waiter] {
      tickets.removeValue(forKey: awaited)?.compactMap { waiters.remove($0) } ?? []
    }

    mutating func moveWaiters(from awaited: Awaited, to other: Awaited) {
      if let moved = tickets.removeValue(forKey: awaited) { tickets[other, default: []] += moved }
    }

    mutating func takePostponed(_ pauses: Pauses) -> [Waiter] {
      changes.pendingKeys.flatMap { key in
        guard let attempt = changes.pendingChange(of: key), pauses[attempt.kind] != nil else { return [Waiter]() }
        return takeWaiters(for: .pending(key))
      }
    }

    mutating func takeDrained() -> [Waiter] { changes.isEmpty ? takeWaiters(for: .drained) : [] }
  }

  /// The maximum number of waiting changes without bytes; each takes some hundred bytes.
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

  /// Returns whether the engine may not have the latest change of a key.
  func isPending(_ key: BlobKey) -> Bool {
    state.withLock { $0.changes.has(key) || $0.hidden.contains(key) }
  }

  /// The number of changes that wait or are in progress, and the bytes of the waiting ones.
  var load: (changes: Int, bytes: Int) { state.withLock { ($0.changes.count, $0.changes.pendingCost) } }

  /// Adds a change, which replaces a waiting change of the key, or is ignored in favor of it if `givesWay` is set.
  func add(_ change: Change, of key: BlobKey, givesWay: Bool = false) {
    // A record that exceeds the limit is read from the directory when the change runs.
    let change = change.byteCount > byteLimit ? .putFromDirectory : change
    let dropped = state.withLock { state -> [Dropped] in
      guard !state.isClosed else { return [Dropped(key: key, change: change, waiters: [])] }
      if givesWay, state.changes.pendingChange(of: key) != nil { return [] }
      // The new change supersedes the earlier one and takes over its waiters.
      _ = state.take(key)
      state.changes.put(Attempt(change), for: key, keepsPlace: false)
      return state.dropExcess(byteLimit)
    }
    for dropped in dropped { drop(dropped) }
    wake()
  }

  /// Adds a change, unless the key has one, which has at least the same effect.
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

  /// Removes the engine's object of a key whose store was dropped, so that an earlier blob is not returned.
  private func invalidate(_ key: BlobKey) {
    guard !state.withLock({ $0.isClosed }) else { return }
    add(.remove, of: key, givesWay: true)
  }

  /// Waits until the key's change is done, dropped or postponed. Cancellation of the task does not stop the change.
  func settled(_ key: BlobKey) async throws -> RemoteOutcome {
    let pauses = pauses
    return try await state.wait(in: \.waiters, for: ()) { state, ticket in
      if let attempt = state.changes.pendingChange(of: key) {
        // A store is retried soon.
        let isLate = attempt.change.isRemoval && state.delayed[key] != nil
        if isLate || pauses[attempt.kind] != nil { return .postponed }
        state.tickets[.pending(key), default: []].append(ticket)
      } else if state.changes.inProgress[key] != nil {
        state.tickets[.inProgress(key), default: []].append(ticket)
      } else {
        return state.hidden.contains(key) ? .dropped : .done
      }
      return nil
    } didEnter: {
      // A pause may have begun after the pauses were read. It resumed only the tasks that were waiting by then.
      wake()
    }
  }

  func drain() async throws {
    _ = try await state.wait(in: \.waiters, for: ()) { state, ticket in
      if state.changes.isEmpty { return .done }
      state.tickets[.drained, default: []].append(ticket)
      return nil
    }
  }

  /// Drops the waiting changes, accepts no more, and cancels those in progress.
  ///
  /// - Returns: The numbers of keys whose latest change the engine has not confirmed.
  func close() -> (stores: Int, removals: Int) {
    let (left, dropped, drained, tasks) = state.withLock { state in
      state.isClosed = true
      let left = state.changes.keys.compactMap { state.changes.latest(of: $0) }
      let removals = left.count { $0.change.isRemoval }
      let dropped = state.changes.pendingKeys.compactMap { state.drop($0) }
      defer { state.alarms = [:] }
      return (
        (left.count - removals, removals), dropped, state.takeWaiters(for: .drained),
        Array(state.workers.values) + Array(state.alarms.values)
      )
    }
    for task in tasks { task.cancel() }
    for dropped in dropped { drop(dropped) }
    for waiter in drained { waiter.continuation.resume(returning: .dropped) }
    return left
  }
}

// MARK: - Carrying out

extension RemoteChanges {
  private var pauses: Pauses {
    var pauses: Pauses = [:]
    for kind in [RemoteRequests.Kind.store, .removal] { pauses[kind] = requests.pause(for: kind) }
    return pauses
  }

  /// Starts a worker if a change is ready, or sets an alarm for each pause.
  private func wake() {
    let pauses = pauses
    let postponed = state.withLock { state -> [Waiter] in
      guard !state.isClosed, state.changes.hasPending else { return [] }
      if state.workers.count < mostWorkers, state.next(pauses) != nil {
        let number = state.nextWorker
        state.nextWorker += 1
        state.workers[number] = Task { await self.work(number) }
        return []
      }
      // A worker calls this again when it ends a change, and so does the task of a delay.
      let postponed = state.takePostponed(pauses)
      guard state.workers.isEmpty else { return postponed }
      for (kind, pause) in pauses where state.alarms[kind] == nil {
        state.alarms[kind] = alarm(for: kind, after: pause)
      }
      return postponed
    }
    // A pause may be long, so no caller waits for its end.
    for waiter in postponed { waiter.continuation.resume(returning: .postponed) }
  }

  private func alarm(for kind: RemoteRequests.Kind, after pause: Duration) -> Task<Void, Never> {
    Task { [clock = requests.tier.clock] in
      // The only error of `sleep` is the cancellation by `close`.
      guard (try? await clock.sleep(for: max(pause, .milliseconds(1)))) != nil else { return }
      self.state.withLock { $0.alarms[kind] = nil }
      self.wake()
    }
  }

  private func work(_ number: UInt64) async {
    while let (key, attempt) = begin() {
      // Starts another worker if there are more changes.
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
    let pauses = pauses
    return state.withLock { state in
      guard !state.isClosed, let key = state.next(pauses), let begun = state.changes.begin(key) else {
        return nil
      }
      state.moveWaiters(from: .pending(key), to: .inProgress(key))
      return (key, begun)
    }
  }

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
      if let kind = error.passedOver {
        // A store of a record that no longer exists has become a removal, and waits until removals are no longer paused.
        var attempt = attempt
        attempt.kind = kind
        again(attempt, of: key, after: .zero)
      } else if error.mayPass, attempt.change.isRemoval || attempt.failures == 0 {
        // A removal is retried until it succeeds, because the removed blob would otherwise return.
        var next = attempt
        next.failures += 1
        again(next, of: key, after: requests.pauseAfter(next.failures))
      } else {
        requests.didDrop(key, isRemoval: attempt.change.isRemoval)
        if attempt.change.isRemoval { state.withLock { $0.hide(key) } }
        end(key, .dropped)
        if attempt.change.replaces { invalidate(key) }
      }
    }
  }

  private func again(_ attempt: Attempt, of key: BlobKey, after delay: Duration) {
    // A store is retried soon, so its waiters continue to wait.
    let goesOn = !attempt.change.isRemoval && requests.pause(for: attempt.kind) == nil
    let (waiters, isClosed) = state.withLock { state -> ([Waiter], Bool) in
      state.changes.end(key)
      guard !state.isClosed else { return (state.takeWaiters(for: .inProgress(key)), true) }
      if state.changes.pendingChange(of: key) != nil {
        // A later change has been added in the meantime.
        state.moveWaiters(from: .inProgress(key), to: .pending(key))
        return ([], false)
      }
      state.changes.put(attempt, for: key, keepsPlace: false)
      if goesOn { state.moveWaiters(from: .inProgress(key), to: .pending(key)) }
      if delay > .zero {
        state.delayed[key] = Task { [clock = requests.tier.clock] in
          // The only error of `sleep` is the cancellation: the change was taken, or the cache is closed.
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
  fileprivate mutating func drop(_ key: BlobKey) -> RemoteChanges.Dropped? {
    guard let taken = take(key) else { return nil }
    return RemoteChanges.Dropped(key: key, change: taken.change, waiters: takeWaiters(for: .pending(key)))
  }

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
    // The same limit as for waiting changes applies. Beyond it, removed blobs may return: Spec/Remote.md, T7.
    if hidden.count >= RemoteChanges.mostWithoutBytes { hidden.removeFirst() }
    hidden.insert(key)
  }
}

/// The outcome of a store or a removal in a remote tier.
public enum RemoteOutcome: String, Sendable {
  case done
  /// The engine has failed or is skipped, and the change is retried later.
  case postponed
  /// The change is not retried; an event reports it.
  case dropped
}
