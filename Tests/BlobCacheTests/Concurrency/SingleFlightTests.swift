@testable import BlobCache
import Testing

/// Tests only the decisions: no test starts a task or waits.
@Suite struct SingleFlightTests {
  private typealias Flights = SingleFlight<String, Int, String>
  private typealias Outcome = Result<String, any Error>

  private struct Refusal: Error {}

  /// Runs a body with a waiter that the body resumes, and returns the result that the waiter was resumed with.
  private func outcome(of body: (Flights.Waiter) -> Void) async throws -> Outcome {
    try await withCheckedThrowingContinuation { body($0) }
  }

  private func resume(_ waiters: [Flights.Waiter], _ output: String) {
    for waiter in waiters { waiter.resume(returning: .success(output)) }
  }

  @Test func requestsOfAKeyJoinOneFlight() async throws {
    var flights = Flights()
    let (flight, subject) = flights.begin(["a", "b"]) { _ in 7 }
    #expect(subject == 7 && flights.subject(of: flight) == 7)
    #expect(flights.flight(of: "a") == flight && flights.flight(of: "b") == flight && flights.flight(of: "c") == nil)
    let tickets = [flights.join(flight, isNew: true), flights.join(flight, isNew: false)]
    #expect(tickets.map(\.isNew) == [true, false])
    #expect(flights.memberCount(of: "a") == 2 && flights.memberCount == 2 && flights.count == 1)
    let first = try await outcome { waiter in
      #expect(flights.wait(tickets[0], waiter) == nil)
      let waiters = flights.finish(flight, .success("result"))
      #expect(waiters.count == 1)
      resume(waiters, "result")
    }
    #expect(try first.get() == "result")
    // The flight remains for the member that has not waited yet, but accepts no new members.
    #expect(flights.count == 1 && flights.flight(of: "a") == nil)
    let second = try await outcome { waiter in
      guard case .result(let result) = flights.wait(tickets[1], waiter) else {
        return waiter.resume(throwing: Refusal())
      }
      waiter.resume(returning: result)
    }
    #expect(try second.get() == "result")
    #expect(flights.count == 0 && flights.memberCount == 0)
  }

  @Test func theLastToLeaveAbandonsTheFlight() {
    var flights = Flights()
    let (flight, _) = flights.begin(["a"]) { _ in 7 }
    let tickets = [flights.join(flight, isNew: true), flights.join(flight, isNew: false)]
    #expect(flights.leave(tickets[0], isOver: true).abandoned == nil)
    #expect(flights.flight(of: "a") == flight)
    #expect(flights.leave(tickets[1], isOver: false).abandoned == 7)
    #expect(flights.flight(of: "a") == nil)
    // A task that is attached later must be cancelled immediately.
    let isAbandoned = flights.attach(Task {}, to: flight)
    #expect(isAbandoned)
    #expect(flights.finish(flight, .success("late")).isEmpty)
  }

  @Test func whoIsCancelledBeforeItWaitsDoesNotWait() async {
    var flights = Flights()
    let (flight, _) = flights.begin(["a"]) { _ in 7 }
    let (ticket, other) = (flights.join(flight, isNew: true), flights.join(flight, isNew: false))
    #expect(flights.leave(ticket, isOver: false).waiter == nil)
    await #expect(throws: CancellationError.self) {
      try await outcome { waiter in
        guard case .cancelled = flights.wait(ticket, waiter) else { return waiter.resume(throwing: Refusal()) }
        waiter.resume(throwing: CancellationError())
      }
    }
    #expect(flights.memberCount == 1)
    #expect(flights.leave(other, isOver: true).abandoned == 7)
  }

  @Test func aWaiterThatLeavesIsReturnedOnce() async {
    var flights = Flights()
    let (flight, _) = flights.begin(["a"]) { _ in 7 }
    let ticket = flights.join(flight, isNew: true)
    await #expect(throws: CancellationError.self) {
      try await outcome { waiter in
        _ = flights.wait(ticket, waiter)
        flights.leave(ticket, isOver: false).waiter?.resume(throwing: CancellationError())
        #expect(flights.leave(ticket, isOver: false).waiter == nil)
        #expect(flights.finish(flight, .success("late")).isEmpty)
      }
    }
    #expect(flights.count == 0)
  }

  @Test func aFlightMayOutliveItsMembers() {
    var flights = Flights()
    let (flight, _) = flights.begin(["a"], outlivesMembers: true) { _ in 7 }
    let ticket = flights.join(flight, isNew: true)
    #expect(flights.leave(ticket, isOver: true).abandoned == nil)
    #expect(flights.flight(of: "a") == flight)
    #expect(flights.finish(flight, .success("result")).isEmpty)
    #expect(flights.count == 0)
  }

  @Test func anEarlyResultIsForAllButThePatient() async throws {
    var flights = Flights()
    let (flight, _) = flights.begin(["a"]) { _ in 7 }
    let (hasty, patient) = (flights.join(flight, isNew: true), flights.join(flight, isNew: false, isPatient: true))
    let early = try await outcome { waiter in
      #expect(flights.wait(hasty, waiter) == nil)
      resume(flights.answer(flight, early: "early"), "early")
    }
    #expect(try early.get() == "early")
    let newcomer = try await outcome { waiter in
      let ticket = flights.join(flight, isNew: false)
      guard case .result(let result) = flights.wait(ticket, waiter) else { return waiter.resume(throwing: Refusal()) }
      waiter.resume(returning: result)
    }
    #expect(try newcomer.get() == "early")
    let end = try await outcome { waiter in
      #expect(flights.wait(patient, waiter) == nil)
      resume(flights.finish(flight, .success("end")), "end")
    }
    #expect(try end.get() == "end")
    #expect(flights.count == 0)
  }

  /// A flight that has returned an early result runs to its end.
  @Test func aFlightWithAnEarlyResultIsNotAbandoned() {
    var flights = Flights()
    let (flight, _) = flights.begin(["a"]) { _ in 7 }
    let ticket = flights.join(flight, isNew: true)
    _ = flights.answer(flight, early: "early")
    #expect(flights.leave(ticket, isOver: true).abandoned == nil)
    #expect(flights.flight(of: "a") == flight)
  }

  @Test func aWithdrawnFlightKeepsItsMembersAndGetsNoMore() {
    var flights = Flights()
    let (first, _) = flights.begin(["a"]) { _ in 1 }
    _ = flights.join(first, isNew: true)
    #expect(flights.withdraw("a") == 1 && flights.withdraw("a") == nil)
    let (second, _) = flights.begin(["a"]) { _ in 2 }
    // Finishing the first flight does not remove the second one.
    _ = flights.finish(first, .success("first"))
    #expect(flights.flight(of: "a") == second)
    _ = flights.begin(["b"]) { _ in 3 }
    #expect(flights.withdrawAll().sorted() == [2, 3])
    #expect(flights.isNoneJoinable)
  }

  @Test func aForgottenFlightHasNoResultForAnybody() {
    var flights = Flights()
    let (flight, _) = flights.begin(["a"]) { _ in 7 }
    _ = flights.join(flight, isNew: true)
    flights.forget(flight)
    #expect(flights.count == 0 && flights.flight(of: "a") == nil)
    #expect(flights.finish(flight, .success("late")).isEmpty)
  }
}
