internal import BlobRecord
internal import BlobStore
internal import Locks

/// The blobs that are being produced, and who waits for them: one producer for each key, however many ask.
///
/// A producer is a task of its own, so that one who asks may be cancelled without the others. When all have left, it is
/// cancelled too.
final class FlightTable: Sendable {
  private struct Flight {
    let number: UInt64
    var waiters: [UInt64: CheckedContinuation<Blob, any Error>]
    /// Whether it goes on when nobody waits.
    let isRefresh: Bool
    var producer: Task<Void, Never>?
  }

  private struct State {
    var flights: [BlobKey: Flight] = [:]
    var nextNumber: UInt64 = 0

    mutating func number() -> UInt64 {
      defer { nextNumber += 1 }
      return nextNumber
    }
  }

  typealias Producer = @Sendable () async throws -> Blob

  /// What somebody has waited for.
  struct Landing: Sendable {
    let blob: Blob
    /// Whether it comes of the producer that was brought along.
    let isOwn: Bool
  }

  private let state = Lock(State())

  /// The keys being produced; for tests.
  var count: Int { state.withLock { $0.flights.count } }
  /// Those who wait for a key; for tests.
  func waiterCount(of key: BlobKey) -> Int { state.withLock { $0.flights[key]?.waiters.count ?? 0 } }

  /// Whether a key is being produced.
  func isUnderWay(_ key: BlobKey) -> Bool { state.withLock { $0.flights[key] != nil } }

  /// What is being produced for a key, by `produce` if nobody is at it.
  ///
  /// - Throws: what `produce` throws, to all who wait; `CancellationError` to one whose task is cancelled.
  func blob(for key: BlobKey, producing produce: @escaping Producer) async throws -> Landing {
    let waiter = state.withLock { $0.number() }
    var isOwn = false
    let blob = try await withTaskCancellationHandler {
      try await lendingPriority(of: waiter, to: key) {
        try await withCheckedThrowingContinuation { continuation in
          isOwn = join(key, waiter, continuation, produce)
          // Cancelled before it waited: the handler has not found it.
          if Task.isCancelled { leave(key, waiter) }
        }
      }
    } onCancel: {
      leave(key, waiter)
    }
    return Landing(blob: blob, isOwn: isOwn)
  }

  /// Has a producer go on with the priority of one who waits for it, also when that is raised.
  private func lendingPriority<Result>(
    of waiter: UInt64, to key: BlobKey, _ body: () async throws -> Result
  ) async throws -> Result {
    guard #available(macOS 26, iOS 26, *) else { return try await body() }
    return try await withTaskPriorityEscalationHandler(operation: body) { _, priority in
      let producer = self.state.withLock { state in
        let flight = state.flights[key]
        return flight?.waiters[waiter] == nil ? nil : flight?.producer
      }
      producer?.escalatePriority(to: priority)
    }
  }

  /// Has a blob produced that nobody waits for, unless somebody is at it.
  func refresh(_ key: BlobKey, producing produce: @escaping Producer) {
    state.withLock { state in
      guard state.flights[key] == nil else { return }
      start(key, &state, waiters: [:], isRefresh: true, produce)
    }
  }

  /// - Returns: whether nobody was at it.
  private func join(
    _ key: BlobKey, _ waiter: UInt64, _ continuation: CheckedContinuation<Blob, any Error>,
    _ produce: @escaping Producer
  ) -> Bool {
    let priority = Task.currentPriority
    let producer = state.withLock { state -> Task<Void, Never>? in
      guard state.flights[key] == nil else {
        state.flights[key]?.waiters[waiter] = continuation
        return state.flights[key]?.producer
      }
      start(key, &state, waiters: [waiter: continuation], isRefresh: false, produce)
      return nil
    }
    guard let producer else { return true }
    if #available(macOS 26, iOS 26, *) { producer.escalatePriority(to: priority) }
    return false
  }

  private func start(
    _ key: BlobKey, _ state: inout State, waiters: [UInt64: CheckedContinuation<Blob, any Error>], isRefresh: Bool,
    _ produce: @escaping Producer
  ) {
    let number = state.number()
    let producer = Task { @concurrent in
      let result: Result<Blob, any Error>
      do {
        result = .success(try await produce())
      } catch {
        result = .failure(error)
      }
      self.land(key, number, result)
    }
    state.flights[key] = Flight(number: number, waiters: waiters, isRefresh: isRefresh, producer: producer)
  }

  private func land(_ key: BlobKey, _ number: UInt64, _ result: Result<Blob, any Error>) {
    let waiters = state.withLock { state -> [UInt64: CheckedContinuation<Blob, any Error>] in
      // Abandoned by all, and perhaps begun again by others.
      guard state.flights[key]?.number == number else { return [:] }
      return state.flights.removeValue(forKey: key)?.waiters ?? [:]
    }
    for waiter in waiters.values { waiter.resume(with: result) }
  }

  private func leave(_ key: BlobKey, _ waiter: UInt64) {
    let (continuation, abandoned) = state.withLock {
      state -> (CheckedContinuation<Blob, any Error>?, Task<Void, Never>?) in
      guard let continuation = state.flights[key]?.waiters.removeValue(forKey: waiter) else { return (nil, nil) }
      guard let flight = state.flights[key], flight.waiters.isEmpty, !flight.isRefresh else {
        return (continuation, nil)
      }
      // Out of the table at once: who comes now begins anew, rather than wait for what is being cancelled.
      state.flights[key] = nil
      return (continuation, flight.producer)
    }
    abandoned?.cancel()
    continuation?.resume(throwing: CancellationError())
  }
}
