internal import Locks

/// Bounds how many producers run at once; the others wait, first come, first served.
///
/// A producer may wait for another production, and keeps its place meanwhile. So a production that another one waits
/// for needs no place: holders of places never wait for one in the line.
final class ProducerPlaces: Sendable {
  private typealias Waiter = SuspendedTask<Void, Production>
  private typealias Line = WaitList<Waiter>

  private struct State {
    var holders: Set<Production> = []
    var line = Line()
    var tickets: [Production: Line.Ticket] = [:]
    /// Productions that others wait for.
    var exempt: Set<Production> = []

    /// Takes a production out of the line.
    mutating func leave(_ production: Production) -> Waiter? {
      tickets.removeValue(forKey: production).flatMap { line.remove($0) }
    }

    /// Gives a free place to the first in the line.
    mutating func admitNext() -> Waiter? {
      guard let next = line.popFirst() else { return nil }
      tickets[next.note] = nil
      holders.insert(next.note)
      return next
    }
  }

  /// nil for no bound.
  private let bound: Int?
  private let state = Lock(State())

  init(bound: Int?) { self.bound = bound.map { max(1, $0) } }

  /// Productions that wait for a place; for tests.
  var waitingCount: Int { state.withLock { $0.line.count } }

  /// Runs a producer in a place, once there is one.
  ///
  /// - Throws: `CancellationError` if the task is cancelled while it waits.
  func withPlace<Result>(for production: Production, _ body: () async throws -> Result) async throws -> Result {
    guard let bound else { return try await body() }
    try await takePlace(for: production, of: bound)
    defer { giveBack(production) }
    return try await body()
  }

  /// Lets a production run that another one waits for, now or when it asks for a place.
  func exempt(_ production: Production) {
    guard bound != nil else { return }
    let waiter = state.withLock { state -> Waiter? in
      guard !production.hasEnded else { return nil }
      state.exempt.insert(production)
      return state.leave(production)
    }
    waiter?.continuation.resume()
  }

  /// Forgets a production that has ended.
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
