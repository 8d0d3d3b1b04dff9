internal import Locks

/// Request coalescing: all requests for a key join one flight, whose result is the result of each of them.
///
/// It is a value, which its owner keeps under a lock. The owner starts a task for each new flight, and resumes the waiters
/// and cancels the tasks that the methods return, once the lock is free. A flight may serve several keys.
///
/// Invariants: of the flights of a key, at most one can be joined; each member of a flight receives exactly one result.
struct SingleFlight<Key: Hashable & Sendable, Subject: Sendable, Output: Sendable>: Sendable {
  /// Receives the result of the flight, or an error if it stops waiting before.
  typealias Waiter = CheckedContinuation<Result<Output, any Error>, any Error>

  struct ID: Hashable, Sendable {
    fileprivate let number: UInt64
  }

  /// A request's membership in a flight.
  struct Ticket: Sendable {
    let flight: ID
    fileprivate let number: UInt64
    /// A Boolean value that indicates whether the request has begun the flight.
    let isNew: Bool
  }

  private enum Member {
    case joined
    case waiting(Waiter)
    /// The task was cancelled before it waited.
    case cancelled
  }

  private struct Flight {
    let keys: [Key]
    let subject: Subject
    /// A Boolean value that indicates whether the flight goes on when its last member has left.
    let outlivesMembers: Bool
    var members: [UInt64: Member] = [:]
    /// The members that wait for the end, even if there is an early result.
    var patient: Set<UInt64> = []
    var early: Output?
    var task: Task<Void, Never>?
    var isAbandoned = false
    var result: Result<Output, any Error>?

    /// A Boolean value that indicates whether a member still wants the result.
    var isWanted: Bool { members.values.contains { if case .cancelled = $0 { false } else { true } } }

    /// The result that a member can have now.
    func result(for number: UInt64) -> Result<Output, any Error>? {
      if let early, !patient.contains(number) { return .success(early) }
      return result
    }
  }

  private var flights: [ID: Flight] = [:]
  private var joinable: [Key: ID] = [:]
  private var lastNumber: UInt64 = 0

  init() {}

  private mutating func number() -> UInt64 {
    lastNumber += 1
    return lastNumber
  }

  /// The number of flights that have not ended, or whose result has not reached all members.
  var count: Int { flights.count }
  /// The number of members of all flights.
  var memberCount: Int { flights.values.reduce(0) { $0 + $1.members.count } }
  /// The number of members of the flight that a request for a key would join.
  func memberCount(of key: Key) -> Int { joinable[key].flatMap { flights[$0]?.members.count } ?? 0 }
  /// A Boolean value that indicates whether no key has a flight that can be joined.
  var isNoneJoinable: Bool { joinable.isEmpty }

  /// The flight that a request for a key would join.
  func flight(of key: Key) -> ID? { joinable[key] }
  func subject(of flight: ID) -> Subject? { flights[flight]?.subject }
  func task(of flight: ID) -> Task<Void, Never>? { flights[flight]?.task }
}

// MARK: - Beginning and joining

extension SingleFlight {
  /// Begins a flight without members, which requests for its keys join from now on.
  ///
  /// - Parameters:
  ///   - keys: what the flight is joined by.
  ///   - outlivesMembers: whether the flight goes on when its last member has left.
  ///   - makeSubject: makes what the flight is about.
  mutating func begin(
    _ keys: [Key], outlivesMembers: Bool = false, _ makeSubject: (ID) -> Subject
  ) -> (flight: ID, subject: Subject) {
    let id = ID(number: number())
    let subject = makeSubject(id)
    flights[id] = Flight(keys: keys, subject: subject, outlivesMembers: outlivesMembers)
    for key in keys { joinable[key] = id }
    return (id, subject)
  }

  /// Sets the task of a flight.
  ///
  /// - Returns: a Boolean value that indicates whether the flight was abandoned before, so that its task is to be cancelled.
  mutating func attach(_ task: Task<Void, Never>, to flight: ID) -> Bool {
    flights[flight]?.task = task
    return flights[flight]?.isAbandoned ?? false
  }

  /// Adds a member to a flight.
  ///
  /// - Parameter isPatient: whether the member waits for the end, even if there is an early result.
  mutating func join(_ flight: ID, isNew: Bool, isPatient: Bool = false) -> Ticket {
    let ticket = Ticket(flight: flight, number: number(), isNew: isNew)
    flights[flight]?.members[ticket.number] = .joined
    if isPatient { flights[flight]?.patient.insert(ticket.number) }
    return ticket
  }
}

// MARK: - Waiting and leaving

extension SingleFlight {
  /// What a member receives without waiting.
  enum Immediate {
    case result(Result<Output, any Error>)
    case cancelled
  }

  /// Makes a member wait for the result.
  ///
  /// - Returns: what the waiter is resumed with at once; `nil` if it waits.
  mutating func wait(_ ticket: Ticket, _ waiter: Waiter) -> Immediate? {
    guard let flight = flights[ticket.flight], case .joined? = flight.members[ticket.number] else {
      remove(ticket)
      return .cancelled
    }
    guard let result = flight.result(for: ticket.number) else {
      flights[ticket.flight]?.members[ticket.number] = .waiting(waiter)
      return nil
    }
    remove(ticket)
    return .result(result)
  }

  /// What remains to be done after a member has left.
  struct Departure {
    /// The waiter of the member, to be resumed with an error.
    var waiter: Waiter?
    /// The task of the flight, to be cancelled, if no member wants its result any more.
    var task: Task<Void, Never>?
    /// The subject of the flight, if the flight is abandoned by now.
    var abandoned: Subject?
  }

  /// Takes a member out of its flight. A flight whose last member has left is abandoned, and cannot be joined any more.
  ///
  /// - Parameter isOver: whether the member will not wait later; otherwise it may be about to.
  mutating func leave(_ ticket: Ticket, isOver: Bool) -> Departure {
    guard var flight = flights[ticket.flight], let member = flight.members[ticket.number] else { return Departure() }
    var departure = Departure()
    if case .waiting(let waiter) = member { departure.waiter = waiter }
    flight.members[ticket.number] = isOver || departure.waiter != nil ? nil : .cancelled
    flight.patient.remove(ticket.number)
    // A flight with an early result goes on to its end.
    if !flight.isWanted, flight.result == nil, flight.early == nil, !flight.outlivesMembers {
      flight.isAbandoned = true
    }
    departure.task = flight.isAbandoned ? flight.task : nil
    departure.abandoned = flight.isAbandoned ? flight.subject : nil
    if flight.isAbandoned { close(flight.keys, of: ticket.flight) }
    flights[ticket.flight] = flight
    removeIfDone(ticket.flight)
    return departure
  }

  private mutating func remove(_ ticket: Ticket) {
    flights[ticket.flight]?.members[ticket.number] = nil
    flights[ticket.flight]?.patient.remove(ticket.number)
    removeIfDone(ticket.flight)
  }
}

// MARK: - Results

extension SingleFlight {
  /// Gives all members a result before the end, except for the patient ones. Members that join later receive it too.
  ///
  /// - Returns: the waiters to resume with the result.
  mutating func answer(_ flight: ID, early output: Output) -> [Waiter] {
    flights[flight]?.early = output
    return takeWaiters(of: flight) { !$0.patient.contains($1) }
  }

  /// Ends a flight. Later requests begin another one.
  ///
  /// - Returns: the waiters to resume with the result.
  mutating func finish(_ flight: ID, _ result: Result<Output, any Error>) -> [Waiter] {
    guard let keys = flights[flight]?.keys else { return [] }
    flights[flight]?.result = result
    close(keys, of: flight)
    let waiters = takeWaiters(of: flight) { _, _ in true }
    removeIfDone(flight)
    return waiters
  }

  private mutating func takeWaiters(of id: ID, where isMeant: (Flight, UInt64) -> Bool) -> [Waiter] {
    guard let flight = flights[id] else { return [] }
    return flight.members.compactMap { number, member in
      guard case .waiting(let waiter) = member, isMeant(flight, number) else { return nil }
      flights[id]?.members[number] = nil
      return waiter
    }
  }

  /// Takes a flight out that nothing waits for: it was abandoned.
  mutating func forget(_ flight: ID) {
    guard let keys = flights.removeValue(forKey: flight)?.keys else { return }
    close(keys, of: flight)
  }

  /// Makes later requests for a key begin another flight. The members of the present one keep it.
  ///
  /// - Returns: the subject of the present flight.
  mutating func withdraw(_ key: Key) -> Subject? {
    joinable.removeValue(forKey: key).flatMap { flights[$0]?.subject }
  }

  /// Makes later requests for all keys begin other flights.
  mutating func withdrawAll() -> [Subject] {
    let subjects = joinable.values.compactMap { flights[$0]?.subject }
    joinable = [:]
    return subjects
  }

  private mutating func close(_ keys: [Key], of id: ID) {
    for key in keys where joinable[key] == id { joinable[key] = nil }
  }

  /// A flight that has ended stays until all that have joined it have its result.
  private mutating func removeIfDone(_ id: ID) {
    if let flight = flights[id], flight.result != nil, flight.members.isEmpty { flights[id] = nil }
  }
}

extension Lock where Value: Sendable {
  /// Suspends the current task until the flight that it has joined has a result for it.
  ///
  /// - Parameters:
  ///   - ticket: the task's membership.
  ///   - flights: where the flight is.
  ///   - leave: takes the member out of the flight, and resumes it, when the task is cancelled.
  /// - Throws: what `leave` resumes the task with; `CancellationError` if it was cancelled before it waited.
  func result<Key, Subject, Output>(
    of ticket: SingleFlight<Key, Subject, Output>.Ticket,
    in flights: any WritableKeyPath<Value, SingleFlight<Key, Subject, Output>> & Sendable,
    onCancel leave: @Sendable () -> Void
  ) async throws -> Result<Output, any Error> {
    try await withCancellableContinuation { waiter in
      switch withLock({ $0[keyPath: flights].wait(ticket, waiter) }) {
      case .result(let result): waiter.resume(returning: result)
      case .cancelled: waiter.resume(throwing: CancellationError())
      case nil: break
      }
    } onCancel: {
      leave()
    }
  }
}
