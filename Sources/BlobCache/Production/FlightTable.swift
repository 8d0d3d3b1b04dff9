internal import BlobRecord
internal import BlobStore
internal import Locks

/// The blobs that are being produced, and their waiters: one producer for each key.
///
/// A producer is a task of its own, so that a caller may be cancelled without the others. When all have left, it is
/// cancelled too. A change of the key takes its flights out of the table: their waiters stay, and later callers begin
/// anew.
final class FlightTable: Sendable {
  typealias Waiter = CheckedContinuation<Blob, any Error>

  private struct Entry {
    var waiters: [UInt64: Waiter]
    var producer: Task<Void, Never>?
    /// Warns when it is in the air for long and others wait for it.
    var watch: Task<Void, Never>?
  }

  private struct State {
    /// The flights that a call from now on may join.
    var joinable: [Flight.Name: Flight] = [:]
    /// All that are in the air.
    var entries: [Flight: Entry] = [:]
    var flights: [UInt64: Flight] = [:]
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
      for kind in [Flight.Kind.load, .refresh] {
        joinable.removeValue(forKey: Flight.Name(key: key, kind: kind))?.overtake()
      }
    }

    mutating func forget(_ flight: Flight) -> Entry? {
      if joinable[flight.name] == flight { joinable[flight.name] = nil }
      guard let entry = entries.removeValue(forKey: flight) else { return nil }
      for waiter in entry.waiters.keys { flights[waiter] = nil }
      return entry
    }
  }

  typealias Producer = @Sendable (Flight) async throws -> Blob

  /// The result that a call has waited for.
  struct Landing: Sendable {
    let flight: Flight
    /// Whether it comes of the producer that was brought along.
    let isOwn: Bool
    let result: Result<Blob, any Error>
  }

  private let state = Lock(State())
  private let patience: Duration
  private let warn: @Sendable (BlobKey) -> Void

  /// - Parameters:
  ///   - patience: how long others wait for a flight before that is worth a warning.
  ///   - warn: receives the flight's key.
  init(patience: Duration, warn: @escaping @Sendable (BlobKey) -> Void) {
    self.patience = patience
    self.warn = warn
  }

  /// The productions under way; for tests.
  var count: Int { state.withLock { $0.entries.count } }
  /// The waiters of a production; for tests.
  func waiterCount(of name: Flight.Name) -> Int {
    state.withLock { state in state.joinable[name].flatMap { state.entries[$0]?.waiters.count } ?? 0 }
  }

  /// Whether a call from now on would join a production.
  func isUnderWay(_ name: Flight.Name) -> Bool { state.withLock { $0.joinable[name] != nil } }
}

// MARK: - Waiting

extension FlightTable {
  /// The result of the key's production, which `produce` makes if none is under way.
  ///
  /// - Returns: what `produce` throws, to all waiters.
  /// - Throws: `CancellationError` to a cancelled task; `recursiveProduction` where the flight waits for the caller.
  func landing(_ name: Flight.Name, producing produce: @escaping Producer) async throws -> Landing {
    let waiter = state.withLock { $0.number() }
    let asker = ProductionChain.current
    var joined: (flight: Flight, isOwn: Bool)?
    defer { if let joined { ProductionChain.endWait(of: asker, for: joined.flight) } }
    let result: Result<Blob, any Error>
    do {
      result = .success(
        try await withTaskCancellationHandler {
          try await lendingPriority(of: waiter) {
            try await withCheckedThrowingContinuation { continuation in
              joined = join(name, waiter, asker, continuation, produce)
              // Cancelled before it waited: the handler has not found it.
              if Task.isCancelled { leave(waiter) }
            }
          }
        } onCancel: {
          leave(waiter)
        })
    } catch let error as LeftFlight {
      throw error.cause
    } catch {
      result = .failure(error)
    }
    guard let joined else { throw CancellationError() }
    return Landing(flight: joined.flight, isOwn: joined.isOwn, result: result)
  }

  /// Runs a producer at least with the priority of a waiter, also when that is raised.
  private func lendingPriority<Result>(of waiter: UInt64, _ body: () async throws -> Result) async throws -> Result {
    guard #available(macOS 26, iOS 26, *) else { return try await body() }
    return try await withTaskPriorityEscalationHandler(operation: body) { _, priority in
      let producer = self.state.withLock { state in
        state.flights[waiter].flatMap { state.entries[$0]?.producer }
      }
      producer?.escalatePriority(to: priority)
    }
  }

  /// Produces a blob without a waiter, unless that is under way.
  func refresh(_ key: BlobKey, producing produce: @escaping Producer) {
    let name = Flight.Name(key: key, kind: .refresh)
    state.withLock { state in
      guard state.joinable[name] == nil else { return }
      _ = start(name, &state, produce)
    }
  }

  /// - Returns: the flight, and whether it has just begun; nil if it waits for the caller, which gets an error.
  private func join(
    _ name: Flight.Name, _ waiter: UInt64, _ asker: Flight?, _ continuation: Waiter, _ produce: @escaping Producer
  ) -> (flight: Flight, isOwn: Bool)? {
    let priority = Task.currentPriority
    do throws(BlobCacheError) {
      let (flight, isOwn, producer) = try state.withLock {
        state throws(BlobCacheError) -> (Flight, Bool, Task<Void, Never>?) in
        let isOwn = state.joinable[name] == nil
        let flight = state.joinable[name] ?? start(name, &state, produce)
        try ProductionChain.beginWait(of: asker, for: flight)
        state.entries[flight]?.waiters[waiter] = continuation
        state.flights[waiter] = flight
        if !isOwn { watch(flight, &state) }
        return (flight, isOwn, isOwn ? nil : state.entries[flight]?.producer)
      }
      if #available(macOS 26, iOS 26, *) { producer?.escalatePriority(to: priority) }
      return (flight, isOwn)
    } catch {
      continuation.resume(throwing: LeftFlight(cause: error))
      return nil
    }
  }

  private func leave(_ waiter: UInt64) {
    let (continuation, abandoned) = state.withLock { state -> (Waiter?, Entry?) in
      guard let flight = state.flights.removeValue(forKey: waiter),
        let continuation = state.entries[flight]?.waiters.removeValue(forKey: waiter)
      else { return (nil, nil) }
      guard flight.name.kind == .load, state.entries[flight]?.waiters.isEmpty == true else {
        return (continuation, nil)
      }
      // Out of the table at once: later calls must not wait for a cancelled production.
      return (continuation, end(flight, &state))
    }
    abandoned?.producer?.cancel()
    continuation?.resume(throwing: LeftFlight(cause: CancellationError()))
  }
}

// MARK: - Beginning and end

extension FlightTable {
  /// Begins a flight without waiters.
  private func start(_ name: Flight.Name, _ state: inout State, _ produce: @escaping Producer) -> Flight {
    let flight = Flight(name, isOvertaken: state.changes[name.key] != nil)
    let producer = Task { @concurrent in
      let result: Result<Blob, any Error>
      do {
        result = .success(try await ProductionChain.producing(flight) { try await produce(flight) })
      } catch {
        result = .failure(error)
      }
      let entry = self.state.withLock { self.end(flight, &$0) }
      // None is left of one that was abandoned.
      for waiter in entry?.waiters.values ?? [:].values { waiter.resume(with: result) }
    }
    state.joinable[name] = flight
    state.entries[flight] = Entry(waiters: [:], producer: producer)
    return flight
  }

  /// Takes a flight from the table and the air.
  private func end(_ flight: Flight, _ state: inout State) -> Entry? {
    ProductionChain.end(flight)
    let entry = state.forget(flight)
    entry?.watch?.cancel()
    return entry
  }

  /// Warns of a flight that others wait for without end: perhaps its producer waits for it.
  private func watch(_ flight: Flight, _ state: inout State) {
    guard state.entries[flight]?.watch == nil else { return }
    state.entries[flight]?.watch = Task { [patience, warn] in
      do {
        try await Task.sleep(for: patience)
      } catch {
        // It has landed.
        return
      }
      if !flight.hasEnded { warn(flight.name.key) }
    }
  }
}

// MARK: - Changes of keys

extension FlightTable {
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
      for flight in state.joinable.values { flight.overtake() }
      state.joinable = [:]
    }
  }
}

/// A caller does not wait, or no longer; unlike an error of the producer.
private struct LeftFlight: Error {
  let cause: any Error
}
