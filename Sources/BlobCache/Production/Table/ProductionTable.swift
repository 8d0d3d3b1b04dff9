internal import BlobRecord
internal import BlobStore
internal import Locks

/// The blobs that are being produced, and their waiters: one producer for each key.
///
/// A producer is a task of its own, so that a caller may be cancelled without the others. When all have left, it is
/// cancelled too. A change of the key takes its productions out of the table: their waiters stay, and later callers begin
/// anew.
final class ProductionTable: Sendable {
  typealias Waiter = CheckedContinuation<Blob, any Error>

  private struct Entry {
    var waiters: [UInt64: Waiter]
    /// Those of them that wait for the end, whatever is answered before.
    var patient: Set<UInt64> = []
    /// What is answered before the end.
    var early: Blob?
    var producer: Task<Void, Never>?
    /// Warns when it runs for long and others wait for it.
    var watch: Task<Void, Never>?
  }

  private struct State {
    /// The productions that a call from now on may join.
    var joinable: [Production.Name: Production] = [:]
    /// All that run.
    var entries: [Production: Entry] = [:]
    var productions: [UInt64: Production] = [:]
    /// How many changes of a key are under way.
    var changes: [BlobKey: Int] = [:]
    var nextNumber: UInt64 = 0

    mutating func number() -> UInt64 {
      defer { nextNumber += 1 }
      return nextNumber
    }

    /// Makes later calls for a key begin anew, and a running production not be stored.
    mutating func withdraw(_ key: BlobKey) {
      guard !joinable.isEmpty else { return }
      for kind in Production.Kind.allCases {
        joinable.removeValue(forKey: Production.Name(key: key, kind: kind))?.overtake()
      }
    }

    mutating func forget(_ production: Production) -> Entry? {
      if joinable[production.name] == production { joinable[production.name] = nil }
      guard let entry = entries.removeValue(forKey: production) else { return nil }
      for waiter in entry.waiters.keys { productions[waiter] = nil }
      return entry
    }
  }

  typealias Producer = @Sendable (Production) async throws -> Blob

  /// The result that a call has waited for.
  struct Answer: Sendable {
    let production: Production
    /// Whether it comes of the producer that was brought along.
    let isOwn: Bool
    let result: Result<Blob, any Error>
  }

  private let state = Lock(State())
  private let patience: Duration
  private let warn: @Sendable (BlobKey) -> Void
  private let places: ProducerPlaces

  /// - Parameters:
  ///   - patience: how long others wait for a production before that is worth a warning.
  ///   - places: hears which productions others wait for, and which have ended.
  ///   - warn: receives the production's key.
  init(patience: Duration, places: ProducerPlaces, warn: @escaping @Sendable (BlobKey) -> Void) {
    self.places = places
    self.patience = patience
    self.warn = warn
  }

  /// The productions under way; for tests.
  var count: Int { state.withLock { $0.entries.count } }
  /// The waiters of a production; for tests.
  func waiterCount(of name: Production.Name) -> Int {
    state.withLock { state in state.joinable[name].flatMap { state.entries[$0]?.waiters.count } ?? 0 }
  }

  /// Whether a call from now on would join a production.
  func isUnderWay(_ name: Production.Name) -> Bool { state.withLock { $0.joinable[name] != nil } }
}

// MARK: - Waiting

extension ProductionTable {
  /// The result of the key's production, which `produce` makes if none is under way.
  ///
  /// - Parameter isPatient: whether the end is waited for, also where `answer(_:early:)` has been called.
  /// - Returns: what `produce` throws, to all waiters.
  /// - Throws: `CancellationError` to a cancelled task; `recursiveProduction` where the production waits for the caller.
  func answer(
    to name: Production.Name, isPatient: Bool = false, producing produce: @escaping Producer
  ) async throws -> Answer {
    let waiter = state.withLock { $0.number() }
    let asker = ProductionWaits.current
    var joined: (production: Production, isOwn: Bool)?
    defer { if let joined { ProductionWaits.endWait(of: asker, for: joined.production) } }
    let result: Result<Blob, any Error>
    do {
      result = .success(
        try await withTaskCancellationHandler {
          try await lendingPriority(of: waiter) {
            try await withCheckedThrowingContinuation { continuation in
              joined = join(name, waiter, asker, isPatient, continuation, produce)
              // Cancelled before it waited: the handler has not found it.
              if Task.isCancelled { leave(waiter) }
            }
          }
        } onCancel: {
          leave(waiter)
        })
    } catch let error as StoppedWaiting {
      throw error.cause
    } catch {
      result = .failure(error)
    }
    guard let joined else { throw CancellationError() }
    return Answer(production: joined.production, isOwn: joined.isOwn, result: result)
  }

  /// Runs a producer at least with the priority of a waiter, also when that is raised.
  private func lendingPriority<Result>(of waiter: UInt64, _ body: () async throws -> Result) async throws -> Result {
    guard #available(macOS 26, iOS 26, *) else { return try await body() }
    return try await withTaskPriorityEscalationHandler(operation: body) { _, priority in
      let producer = self.state.withLock { state in
        state.productions[waiter].flatMap { state.entries[$0]?.producer }
      }
      producer?.escalatePriority(to: priority)
    }
  }

  /// Produces a blob without a waiter, unless that is under way.
  func refresh(_ key: BlobKey, producing produce: @escaping Producer) {
    let name = Production.Name(key: key, kind: .refresh)
    state.withLock { state in
      guard state.joinable[name] == nil else { return }
      _ = start(name, &state, produce)
    }
  }

  /// - Returns: the production, and whether it has just begun; nil if it waits for the caller, which gets an error.
  private func join(
    _ name: Production.Name, _ waiter: UInt64, _ asker: Production?, _ isPatient: Bool, _ continuation: Waiter,
    _ produce: @escaping Producer
  ) -> (production: Production, isOwn: Bool)? {
    let priority = Task.currentPriority
    do throws(BlobCacheError) {
      let (production, isOwn, producer, early) = try state.withLock {
        state throws(BlobCacheError) -> (Production, Bool, Task<Void, Never>?, Blob?) in
        let isOwn = state.joinable[name] == nil
        let production = state.joinable[name] ?? start(name, &state, produce)
        try ProductionWaits.beginWait(of: asker, for: production)
        if !isPatient, let early = state.entries[production]?.early { return (production, isOwn, nil, early) }
        state.entries[production]?.waiters[waiter] = continuation
        if isPatient { state.entries[production]?.patient.insert(waiter) }
        state.productions[waiter] = production
        if !isOwn { watch(production, &state) }
        return (production, isOwn, isOwn ? nil : state.entries[production]?.producer, nil)
      }
      if let early { continuation.resume(returning: early) }
      if asker != nil { places.exempt(production) }
      if #available(macOS 26, iOS 26, *) { producer?.escalatePriority(to: priority) }
      return (production, isOwn)
    } catch {
      continuation.resume(throwing: StoppedWaiting(cause: error))
      return nil
    }
  }

  private func leave(_ waiter: UInt64) {
    let (continuation, abandoned) = state.withLock { state -> (Waiter?, Entry?) in
      guard let production = state.productions.removeValue(forKey: waiter),
        let continuation = state.entries[production]?.waiters.removeValue(forKey: waiter)
      else { return (nil, nil) }
      state.entries[production]?.patient.remove(waiter)
      // One that has answered goes on to its end.
      guard production.name.kind != .refresh, let entry = state.entries[production], entry.waiters.isEmpty,
        entry.early == nil
      else {
        return (continuation, nil)
      }
      // Out of the table at once: later calls must not wait for a cancelled production.
      return (continuation, end(production, &state))
    }
    abandoned?.producer?.cancel()
    continuation?.resume(throwing: StoppedWaiting(cause: CancellationError()))
  }
}

// MARK: - Beginning and end

extension ProductionTable {
  /// Answers a production before its end, to all but the patient; also to those who join it later.
  func answer(_ production: Production, early blob: Blob) {
    let waiters = state.withLock { state -> [Waiter] in
      guard let entry = state.entries[production] else { return [] }
      state.entries[production]?.early = blob
      let numbers = entry.waiters.keys.filter { !entry.patient.contains($0) }
      return numbers.compactMap { number in
        state.productions[number] = nil
        return state.entries[production]?.waiters.removeValue(forKey: number)
      }
    }
    for waiter in waiters { waiter.resume(returning: blob) }
  }

  /// Begins a production without waiters.
  private func start(_ name: Production.Name, _ state: inout State, _ produce: @escaping Producer) -> Production {
    let production = Production(name, isOvertaken: state.changes[name.key] != nil)
    let producer = Task { @concurrent in
      let result: Result<Blob, any Error>
      do {
        result = .success(try await ProductionWaits.producing(production) { try await produce(production) })
      } catch {
        result = .failure(error)
      }
      let entry = self.state.withLock { self.end(production, &$0) }
      // None is left of one that was abandoned.
      for waiter in entry?.waiters.values ?? [:].values { waiter.resume(with: result) }
    }
    state.joinable[name] = production
    state.entries[production] = Entry(waiters: [:], producer: producer)
    return production
  }

  /// Takes a production from the table.
  private func end(_ production: Production, _ state: inout State) -> Entry? {
    ProductionWaits.end(production)
    places.forget(production)
    let entry = state.forget(production)
    entry?.watch?.cancel()
    return entry
  }

  /// Warns of a production that others wait for without end: perhaps its producer waits for it.
  private func watch(_ production: Production, _ state: inout State) {
    guard state.entries[production]?.watch == nil else { return }
    state.entries[production]?.watch = Task { [patience, warn] in
      do {
        try await Task.sleep(for: patience)
      } catch {
        // It has ended.
        return
      }
      if !production.hasEnded { warn(production.name.key) }
    }
  }
}

// MARK: - Changes of keys

extension ProductionTable {
  /// Runs a change that replaces or removes the blob of a key.
  ///
  /// A running production of the key is then not stored. A call after the change waits for nothing that began before
  /// its end.
  func changing<Result>(_ key: BlobKey, _ change: () throws -> Result) rethrows -> Result {
    state.withLock { state in
      state.withdraw(key)
      state.changes[key, default: 0] += 1
    }
    defer {
      state.withLock { state in
        state.withdraw(key)
        let count = state.changes[key] ?? 1
        state.changes[key] = count > 1 ? count - 1 : nil
      }
    }
    return try change()
  }

  /// Runs a change of all keys, which may take long.
  ///
  /// A production that begins and ends during the change is stored.
  func changingAll<Result>(_ change: () throws -> Result) rethrows -> Result {
    withdrawAll()
    defer { withdrawAll() }
    return try change()
  }

  private func withdrawAll() {
    state.withLock { state in
      for production in state.joinable.values { production.overtake() }
      state.joinable = [:]
    }
  }
}

/// A caller does not wait, or no longer; unlike an error of the producer.
private struct StoppedWaiting: Error {
  let cause: any Error
}
