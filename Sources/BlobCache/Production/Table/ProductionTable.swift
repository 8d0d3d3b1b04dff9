internal import BlobRecord
internal import BlobStore
internal import Locks

/// The productions in progress and their waiters, with one producer for each key.
///
/// A producer runs in a separate task, so that cancelling one caller does not affect the others. It is cancelled when
/// all callers have left. A change of the key removes its productions from the table: their waiters stay, and later
/// callers begin a new production.
final class ProductionTable: Sendable {
  typealias Flights = SingleFlight<Production.Name, Production, Blob>

  private struct State {
    var flights = Flights()
    /// The tasks that warn of long productions that others wait for.
    var watches: [Flights.ID: Task<Void, Never>] = [:]
    var changes: [BlobKey: Int] = [:]

    /// Makes later calls for a key begin a new production, and prevents running ones from being stored.
    mutating func withdraw(_ key: BlobKey) {
      guard !flights.isNoneJoinable else { return }
      for kind in Production.Kind.allCases {
        flights.withdraw(Production.Name(key: key, kind: kind))?.supersede()
      }
    }
  }

  typealias Producer = @Sendable (Production) async throws -> Blob

  struct Answer: Sendable {
    let production: Production
    /// A Boolean value that indicates whether the call's own producer has run.
    let isOwn: Bool
    let result: Result<Blob, any Error>
  }

  private let state = Lock(State())
  private let patience: Duration
  private let warn: @Sendable (BlobKey) -> Void
  private let places: ProducerPlaces

  init(patience: Duration, places: ProducerPlaces, warn: @escaping @Sendable (BlobKey) -> Void) {
    self.places = places
    self.patience = patience
    self.warn = warn
  }

  var count: Int { state.withLock { $0.flights.count } }
  func waiterCount(of name: Production.Name) -> Int { state.withLock { $0.flights.memberCount(of: name) } }

  /// Returns a Boolean value that indicates whether a call would now join a production.
  func isUnderWay(_ name: Production.Name) -> Bool { state.withLock { $0.flights.flight(of: name) != nil } }
}

// MARK: - Waiting

extension ProductionTable {
  /// Waits for the result of the key's production, which `produce` begins if none is in progress.
  ///
  /// - Parameter isPatient: A Boolean value that indicates whether to wait for the end even after `answer(_:early:)`.
  /// - Throws: `CancellationError` if the task is cancelled; `recursiveProduction` if the producer awaits the caller.
  func answer(
    to name: Production.Name, isPatient: Bool = false, producing produce: @escaping Producer
  ) async throws -> Answer {
    let asker = ProductionWaits.current
    let (ticket, production) = try join(name, asker, isPatient: isPatient, produce)
    defer { ProductionWaits.endWait(of: asker, for: production) }
    let result = try await lendingPriority(to: production) {
      try await state.result(of: ticket, in: \.flights) { leave(ticket) }
    }
    return Answer(production: production, isOwn: ticket.isNew, result: result)
  }

  /// Escalates the producer's priority when the priority of a waiting task is raised.
  private func lendingPriority<Result>(
    to production: Production, _ body: () async throws -> Result
  ) async throws -> Result {
    guard #available(macOS 26, iOS 26, *) else { return try await body() }
    return try await withTaskPriorityEscalationHandler(operation: body) { _, priority in
      let producer = self.state.withLock { $0.flights.task(of: production.flight) }
      producer?.escalatePriority(to: priority)
    }
  }

  /// Produces a blob without a waiter, unless a refresh is in progress.
  func refresh(_ key: BlobKey, producing produce: @escaping Producer) {
    let name = Production.Name(key: key, kind: .refresh)
    state.withLock { state in
      if state.flights.flight(of: name) == nil { _ = start(name, &state, produce) }
    }
  }

  private func join(
    _ name: Production.Name, _ asker: Production?, isPatient: Bool, _ produce: @escaping Producer
  ) throws(BlobCacheError) -> (Flights.Ticket, Production) {
    let priority = Task.currentPriority
    let (ticket, production, producer) = try state.withLock {
      state throws(BlobCacheError) -> (Flights.Ticket, Production, Task<Void, Never>?) in
      let joined = state.flights.flight(of: name).flatMap { state.flights.subject(of: $0) }
      let production = joined ?? start(name, &state, produce)
      try ProductionWaits.beginWait(of: asker, for: production)
      let ticket = state.flights.join(production.flight, isNew: joined == nil, isPatient: isPatient)
      guard joined != nil else { return (ticket, production, nil) }
      watch(production, &state)
      return (ticket, production, state.flights.task(of: production.flight))
    }
    if asker != nil { places.exempt(production) }
    if #available(macOS 26, iOS 26, *) { producer?.escalatePriority(to: priority) }
    return (ticket, production)
  }

  private func leave(_ ticket: Flights.Ticket) {
    let departure = state.withLock { state in
      let departure = state.flights.leave(ticket, isOver: false)
      // An abandoned production is removed immediately, so that later calls do not wait for a cancelled one.
      if let abandoned = departure.abandoned {
        end(abandoned, &state)
        state.flights.forget(ticket.flight)
      }
      return departure
    }
    departure.task?.cancel()
    departure.waiter?.resume(throwing: CancellationError())
  }
}

// MARK: - Beginning and end

extension ProductionTable {
  /// Answers current and later waiters of a production before its end, except patient ones.
  func answer(_ production: Production, early blob: Blob) {
    let waiters = state.withLock { $0.flights.answer(production.flight, early: blob) }
    for waiter in waiters { waiter.resume(returning: .success(blob)) }
  }

  /// Begins a production without waiters. A refresh continues without any.
  private func start(_ name: Production.Name, _ state: inout State, _ produce: @escaping Producer) -> Production {
    let isSuperseded = state.changes[name.key] != nil
    let (flight, production) = state.flights.begin([name], outlivesMembers: name.kind == .refresh) { flight in
      Production(name, in: flight, isSuperseded: isSuperseded)
    }
    let producer = Task { @concurrent in
      let result: Result<Blob, any Error>
      do {
        result = .success(try await ProductionWaits.producing(production) { try await produce(production) })
      } catch {
        result = .failure(error)
      }
      let waiters = self.state.withLock { state in
        self.end(production, &state)
        // An abandoned production has no waiters.
        return state.flights.finish(flight, result)
      }
      for waiter in waiters { waiter.resume(returning: result) }
    }
    _ = state.flights.attach(producer, to: flight)
    return production
  }

  private func end(_ production: Production, _ state: inout State) {
    ProductionWaits.end(production)
    places.forget(production)
    state.watches.removeValue(forKey: production.flight)?.cancel()
  }

  /// Warns of a production that others wait for too long, because its producer may wait for one of them.
  private func watch(_ production: Production, _ state: inout State) {
    guard state.watches[production.flight] == nil else { return }
    state.watches[production.flight] = Task { [patience, warn] in
      do {
        try await Task.sleep(for: patience)
      } catch {
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
  /// A running production of the key is then not stored. A later call does not join any production that began before
  /// the end of the change.
  func changing<Result>(_ key: BlobKey, _ change: () throws -> Result) rethrows -> Result {
    beginChange(of: key)
    defer { endChange(of: key) }
    return try change()
  }

  func beginChange(of key: BlobKey) {
    state.withLock { state in
      state.withdraw(key)
      state.changes[key, default: 0] += 1
    }
  }

  func endChange(of key: BlobKey) {
    state.withLock { state in
      state.withdraw(key)
      let count = state.changes[key] ?? 1
      state.changes[key] = count > 1 ? count - 1 : nil
    }
  }

  /// Runs a long change of all keys. A production that begins and ends during the change is stored.
  func changingAll<Result>(_ change: () throws -> Result) rethrows -> Result {
    withdrawAll()
    defer { withdrawAll() }
    return try change()
  }

  private func withdrawAll() {
    state.withLock { state in
      for production in state.flights.withdrawAll() { production.supersede() }
    }
  }
}
