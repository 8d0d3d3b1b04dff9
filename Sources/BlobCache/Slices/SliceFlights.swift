internal import Locks

/// The current fetches of an object's slices, and the reads that wait for them. A slice is in at most one fetch.
///
/// A fetch is cancelled when its last waiter is cancelled.
final class SliceFlights: Sendable {
  private typealias Flights = SingleFlight<Int64, Range<Int64>, [Data]>

  struct Ticket: Sendable {
    fileprivate let membership: SingleFlight<Int64, Range<Int64>, [Data]>.Ticket
    let slices: Range<Int64>
    var isNew: Bool { membership.isNew }
  }

  private struct State {
    var flights = Flights()

    mutating func join(_ flight: Flights.ID, isNew: Bool) -> Ticket {
      Ticket(membership: flights.join(flight, isNew: isNew), slices: flights.subject(of: flight) ?? 0..<0)
    }
  }

  private let state = Lock(State())

  var count: Int { state.withLock { $0.flights.count } }
  var waiterCount: Int { state.withLock { $0.flights.memberCount } }

  /// Joins the fetches of slices, in ascending order, and creates fetches of at most `most` slices for the others.
  ///
  /// - Parameter onlyNew: A Boolean value that indicates whether fetches in progress are not joined.
  func join(_ missing: [Int64], most: Int64, onlyNew: Bool = false) -> [Ticket] {
    state.withLock { state in
      var tickets: [Ticket] = []
      var run: Range<Int64>?
      func close(_ state: inout State) {
        guard let slices = run.take() else { return }
        let begun = state.flights.begin(Array(slices)) { _ in slices }
        tickets.append(state.join(begun.flight, isNew: true))
      }
      for index in missing {
        if let flight = state.flights.flight(of: index) {
          close(&state)
          // A fetch of several slices is joined once.
          if !onlyNew, tickets.last?.membership.flight != flight { tickets.append(state.join(flight, isNew: false)) }
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

  func attach(_ task: Task<Void, Never>, to ticket: Ticket) {
    if state.withLock({ $0.flights.attach(task, to: ticket.membership.flight) }) { task.cancel() }
  }

  func wait(_ ticket: Ticket) async throws -> [Data] {
    try await state.result(of: ticket.membership, in: \.flights) { leave(ticket, isOver: false) }.get()
  }

  func leave(_ ticket: Ticket) { leave(ticket, isOver: true) }

  private func leave(_ ticket: Ticket, isOver: Bool) {
    let departure = state.withLock { $0.flights.leave(ticket.membership, isOver: isOver) }
    departure.task?.cancel()
    departure.waiter?.resume(throwing: CancellationError())
  }

  func finish(_ ticket: Ticket, _ result: Result<[Data], any Error>) {
    let waiters = state.withLock { $0.flights.finish(ticket.membership.flight, result) }
    for waiter in waiters { waiter.resume(returning: result) }
  }
}
