internal import Locks

/// A limit of concurrent producers; the others wait in order of arrival.
///
/// A producer may wait for another production, and keeps its place in the meantime. To avoid a deadlock, a production
/// that another one waits for needs no place, so a holder never waits for a production in the queue.
final class ProducerPlaces: Sendable {
  private typealias Waiter = SuspendedTask<Void, Production>
  private typealias Line = WaitList<Waiter>

  private struct State {
    var holders: Set<Production> = []
    var line = Line()
    var tickets: [Production: Line.Ticket] = [:]
    var exempt: Set<Production> = []

    mutating func leave(_ production: Production) -> Waiter? {
      tickets.removeValue(forKey: production).flatMap { line.remove($0) }
    }

    mutating func admitNext() -> Waiter? {
      guard let next = line.popFirst() else { return nil }
      tickets[next.note] = nil
      holders.insert(next.note)
      return next
    }
  }

  private let bound: Int?
  private let state = Lock(State())

  init(bound: Int?) { self.bound = bound.map { max(1, $0) } }

  var waitingCount: Int { state.withLock { $0.line.count } }

  /// Runs a producer in a place, once there is a free one.
  func withPlace<Result>(for production: Production, _ body: () async throws -> Result) async throws -> Result {
    guard let bound else { return try await body() }
    try await takePlace(for: production, of: bound)
    defer { giveBack(production) }
    return try await body()
  }

  /// Lets a production run without a place, now or when it asks for one, because another production waits for it.
  func exempt(_ production: Production) {
    guard bound != nil else { return }
    let waiter = state.withLock { state -> Waiter? in
      guard !production.hasEnded else { return nil }
      state.exempt.insert(production)
      return state.leave(production)
    }
    waiter?.continuation.resume()
  }

  func forget(_ production: Production) {
    guard bound != nil else { return }
    state.withLock { _ = $0.exempt.remove(production) }
  }

  private func takePlace(for production: Production, of bound: Int) async throws {
    try await state.wait(in: \.line, for: production) { state, ticket in
      if state.exempt.contains(production) { return () }
      if state.holders.count < bound, state.line.isEmpty {
        state.holders.insert(production)
        return ()
      }
      state.tickets[production] = ticket
      return nil
    }
  }

  private func giveBack(_ production: Production) {
    let next = state.withLock { state in state.holders.remove(production) == nil ? nil : state.admitNext() }
    next?.continuation.resume()
  }
}
