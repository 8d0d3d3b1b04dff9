internal import Locks

/// The fetches of an object's slices that are under way, and the reads that wait for them.
///
/// Each slice is in one fetch at a time. A fetch whose last waiter was cancelled is cancelled too.
final class SliceFlights: Sendable {
  /// A waiter's place in a fetch.
  struct Ticket: Sendable {
    fileprivate let flight: Int
    fileprivate let number: Int
    let slices: Range<Int64>
    /// Whether its holder must start the fetch.
    let isNew: Bool
  }

  fileprivate enum Waiter {
    case joined
    case waiting(CheckedContinuation<[Data], any Error>)
    /// Cancelled before it waits.
    case cancelled
  }

  fileprivate struct Flight {
    let slices: Range<Int64>
    var isAbandoned = false
    var waiters: [Int: Waiter] = [:]
    var task: Task<Void, Never>?
    var result: Result<[Data], any Error>?
  }

  fileprivate struct State {
    var flights: [Int: Flight] = [:]
    /// The fetch of a slice that newcomers may join.
    var flightOfSlice: [Int64: Int] = [:]
    var nextNumber = 0
  }

  private let state = Lock(State())

  /// Fetches under way.
  var count: Int { state.withLock { $0.flights.count } }
  /// Reads that wait for them.
  var waiterCount: Int { state.withLock { $0.flights.values.reduce(0) { $0 + $1.waiters.count } } }

  /// Joins the fetches of slices, and makes new ones where there are none.
  ///
  /// - Parameters:
  ///   - missing: ascending.
  ///   - most: slices in one fetch.
  ///   - onlyNew: whether those that are under way are passed over.
  func join(_ missing: [Int64], most: Int64, onlyNew: Bool = false) -> [Ticket] {
    state.withLock { state in
      var tickets: [Ticket] = []
      var run: Range<Int64>?
      func close(_ state: inout State) {
        guard let slices = run.take() else { return }
        tickets.append(state.begin(slices))
      }
      for index in missing {
        if let id = state.flightOfSlice[index] {
          close(&state)
          // A fetch of several slices is joined once.
          if !onlyNew, tickets.last?.flight != id { tickets.append(state.join(id)) }
        } else if let last = run, last.upperBound == index, Int64(last.count) < most {
          run = last.lowerBound..<index + 1
        } else {
          close(&state)
          run = index..<index + 1
        }
      }
      close(&state)
      return tickets
    }
  }

  /// The task of a new fetch, which is cancelled when no read waits for it any more.
  func attach(_ task: Task<Void, Never>, to ticket: Ticket) {
    let isAbandoned = state.withLock { state in
      state.flights[ticket.flight]?.task = task
      return state.flights[ticket.flight]?.isAbandoned ?? false
    }
    if isAbandoned { task.cancel() }
  }

  /// The slices of a ticket's fetch.
  ///
  /// - Throws: the error of the fetch; `CancellationError`.
  func wait(_ ticket: Ticket) async throws -> [Data] {
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let result = state.withLock { $0.wait(ticket, continuation) }
        if let result { continuation.resume(with: result) }
      }
    } onCancel: {
      leave(ticket, isOver: false)
    }
  }

  /// Gives a ticket up.
  func leave(_ ticket: Ticket) { leave(ticket, isOver: true) }

  private func leave(_ ticket: Ticket, isOver: Bool) {
    let (waiter, task) = state.withLock { $0.leave(ticket, isOver: isOver) }
    task?.cancel()
    waiter?.resume(throwing: CancellationError())
  }

  /// Ends a fetch: from now on, others make a new one.
  func finish(_ ticket: Ticket, _ result: Result<[Data], any Error>) {
    for waiter in state.withLock({ $0.finish(ticket, result) }) { waiter.resume(with: result) }
  }
}

extension SliceFlights.State {
  private mutating func number() -> Int {
    nextNumber += 1
    return nextNumber
  }

  fileprivate mutating func begin(_ slices: Range<Int64>) -> SliceFlights.Ticket {
    let id = number()
    flights[id] = SliceFlights.Flight(slices: slices)
    for index in slices { flightOfSlice[index] = id }
    let waiter = number()
    flights[id]?.waiters[waiter] = .joined
    return SliceFlights.Ticket(flight: id, number: waiter, slices: slices, isNew: true)
  }

  fileprivate mutating func join(_ id: Int) -> SliceFlights.Ticket {
    let waiter = number()
    flights[id]?.waiters[waiter] = .joined
    return SliceFlights.Ticket(flight: id, number: waiter, slices: flights[id]?.slices ?? 0..<0, isNew: false)
  }

  /// - Returns: what the waiter gets at once.
  fileprivate mutating func wait(
    _ ticket: SliceFlights.Ticket, _ continuation: CheckedContinuation<[Data], any Error>
  ) -> Result<[Data], any Error>? {
    guard let waiter = flights[ticket.flight]?.waiters[ticket.number], case .joined = waiter else {
      flights[ticket.flight]?.waiters[ticket.number] = nil
      removeIfDone(ticket.flight)
      return .failure(CancellationError())
    }
    guard let result = flights[ticket.flight]?.result else {
      flights[ticket.flight]?.waiters[ticket.number] = .waiting(continuation)
      return nil
    }
    flights[ticket.flight]?.waiters[ticket.number] = nil
    removeIfDone(ticket.flight)
    return result
  }

  /// - Parameter isOver: whether the waiter will not wait any more; else it may be about to.
  /// - Returns: the waiter that gets an error, and the task that is not wanted any more.
  fileprivate mutating func leave(
    _ ticket: SliceFlights.Ticket, isOver: Bool
  ) -> (waiter: CheckedContinuation<[Data], any Error>?, task: Task<Void, Never>?) {
    guard var flight = flights[ticket.flight], let waiter = flight.waiters[ticket.number] else { return (nil, nil) }
    var continuation: CheckedContinuation<[Data], any Error>?
    if case .waiting(let waiting) = waiter { continuation = waiting }
    flight.waiters[ticket.number] = isOver || continuation != nil ? nil : .cancelled
    let isWanted = flight.waiters.values.contains { if case .cancelled = $0 { false } else { true } }
    if !isWanted, flight.result == nil, !flight.isAbandoned {
      flight.isAbandoned = true
      open(flight.slices, of: ticket.flight)
    }
    flights[ticket.flight] = flight
    removeIfDone(ticket.flight)
    return (continuation, flight.isAbandoned ? flight.task : nil)
  }

  /// - Returns: the waiters.
  fileprivate mutating func finish(
    _ ticket: SliceFlights.Ticket, _ result: Result<[Data], any Error>
  ) -> [CheckedContinuation<[Data], any Error>] {
    guard var flight = flights[ticket.flight] else { return [] }
    flight.result = result
    var continuations: [CheckedContinuation<[Data], any Error>] = []
    for (number, waiter) in flight.waiters {
      guard case .waiting(let continuation) = waiter else { continue }
      continuations.append(continuation)
      flight.waiters[number] = nil
    }
    open(flight.slices, of: ticket.flight)
    flights[ticket.flight] = flight
    removeIfDone(ticket.flight)
    return continuations
  }

  /// From now on, newcomers begin a fetch of these slices.
  private mutating func open(_ slices: Range<Int64>, of id: Int) {
    for index in slices where flightOfSlice[index] == id { flightOfSlice[index] = nil }
  }

  /// A fetch that has ended stays until all that have joined it have its result.
  private mutating func removeIfDone(_ id: Int) {
    if let flight = flights[id], flight.result != nil, flight.waiters.isEmpty { flights[id] = nil }
  }
}
