internal import Locks

/// Request coalescing: all requests for a key join one flight, whose result is the result of each of them.
///
/// It is a value, which its owner protects by a lock. The owner starts a task for each new flight. After unlocking, it
/// resumes the waiters and cancels the tasks that the methods return. A flight may serve several keys.
///
/// Invariants: of the flights of a key, at most one can be joined; each member of a flight receives exactly one result.
struct SingleFlight<Key: Hashable & Sendable, Subject: Sendable, Output: Sendable>: Sendable {
  /// Receives the result of the flight, or an error if the member stops waiting before.
  typealias Waiter = CheckedContinuation<Result<Output, any Error>, any Error>

  struct ID: Hashable, Sendable {
    fileprivate let number: UInt64
  }

  /// A request's membership in a flight.
  struct Ticket: Sendable {
    let flight: ID
    fileprivate let number: UInt64
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
    /// A Boolean value that indicates whether the flight continues when its last member has left.
    let outlivesMembers: Bool
    /// A Boolean value that indicates whether no other flight of its keys begins before an abandoned one has ended.
    let keepsKeys: Bool
    var members: [UInt64: Member] = [:]
    /// The members that wait for the end, even if there is an early result.
    var patient: Set<UInt64> = []
    var early: Output?
    var task: Task<Void, Never>?
    var isAbandoned = false
    var result: Result<Output, any Error>?

    var isWanted: Bool { members.values.contains { if case .cancelled = $0 { false } else { true } } }

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
  var memberCount: Int { flights.values.reduce(0) { $0 + $1.members.count } }
  func memberCount(of key: Key) -> Int { joinable[key].map(memberCount(of:)) ?? 0 }
  func memberCount(of flight: ID) -> Int { flights[flight]?.members.count ?? 0 }
  var isNoneJoinable: Bool { joinable.isEmpty }

  func flight(of key: Key) -> ID? { joinable[key] }
  func subject(of flight: ID) -> Subject? { flights[flight]?.subject }
  /// Returns whether a flight can still get members: it has neither been abandoned nor removed.
  func canBeJoined(_ flight: ID) -> Bool { flights[flight]?.isAbandoned == false }
  func task(of flight: ID) -> Task<Void, Never>? { flights[flight]?.task }
}

// MARK: - Beginning and joining

extension SingleFlight {
  /// Begins a flight without members, which requests for its keys join from now on.
  mutating func begin(
    _ keys: [Key], outlivesMembers: Bool = false, keepsKeys: Bool = false, _ makeSubject: (ID) -> Subject
  ) -> (flight: ID, subject: Subject) {
    let id = ID(number: number())
    let subject = makeSubject(id)
    flights[id] = Flight(keys: keys, subject: subject, outlivesMembers: outlivesMembers, keepsKeys: keepsKeys)
    for key in keys { joinable[key] = id }
    return (id, subject)
  }

  /// Sets the task of a flight, and returns `true` if the flight was abandoned, so the task has to be cancelled.
  mutating func attach(_ task: Task<Void, Never>, to flight: ID) -> Bool {
    flights[flight]?.task = task
    return flights[flight]?.isAbandoned ?? false
  }

  /// Adds a member to a flight; a patient member waits for the end, even if there is an early result.
  mutating func join(_ flight: ID, isNew: Bool, isPatient: Bool = false) -> Ticket {
    let ticket = Ticket(flight: flight, number: number(), isNew: isNew)
    flights[flight]?.members[ticket.number] = .joined
    if isPatient { flights[flight]?.patient.insert(ticket.number) }
    return ticket
  }
}

// MARK: - Waiting and leaving

extension SingleFlight {
  enum Immediate {
    case result(Result<Output, any Error>)
    case cancelled
  }

  /// Makes a member wait, or returns the outcome to resume the waiter with immediately.
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

  /// The actions that remain after a member has left.
  struct Departure {
    /// The waiter of the member, to be resumed with an error.
    var waiter: Waiter?
    /// The task of the flight, to be cancelled, if no member wants its result any longer.
    var task: Task<Void, Never>?
    /// The subject of the flight, if the flight is abandoned.
    var abandoned: Subject?
  }

  /// Removes a member from its flight. After its last member, a flight is abandoned, so it gets no other members.
  ///
  /// - Parameter isOver: A Boolean value that indicates whether the member will not wait any longer.
  mutating func leave(_ ticket: Ticket, isOver: Bool) -> Departure {
    guard var flight = flights[ticket.flight], let member = flight.members[ticket.number] else { return Departure() }
    var departure = Departure()
    if case .waiting(let waiter) = member { departure.waiter = waiter }
    flight.members[ticket.number] = isOver || departure.waiter != nil ? nil : .cancelled
    flight.patient.remove(ticket.number)
    // A flight with an early result continues to its end.
    if !flight.isWanted, flight.result == nil, flight.early == nil, !flight.outlivesMembers {
      flight.isAbandoned = true
    }
    departure.task = flight.isAbandoned ? flight.task : nil
    departure.abandoned = flight.isAbandoned ? flight.subject : nil
    if flight.isAbandoned, !flight.keepsKeys { close(flight.keys, of: ticket.flight) }
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
  /// Gives all current and later members except for patient ones an early result, and returns waiters to resume.
  mutating func answer(_ flight: ID, early output: Output) -> [Waiter] {
    flights[flight]?.early = output
    return takeWaiters(of: flight) { !$0.patient.contains($1) }
  }

  /// Ends a flight, so that later requests begin another one, and returns the waiters to resume.
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

  /// Removes an abandoned flight without waiters.
  mutating func forget(_ flight: ID) {
    guard let keys = flights.removeValue(forKey: flight)?.keys else { return }
    close(keys, of: flight)
  }

  /// Makes later requests for a key begin another flight, and returns the subject of the current one.
  mutating func withdraw(_ key: Key) -> Subject? {
    joinable.removeValue(forKey: key).flatMap { flights[$0]?.subject }
  }

  mutating func withdrawAll() -> [Subject] {
    let subjects = joinable.values.compactMap { flights[$0]?.subject }
    joinable = [:]
    return subjects
  }

  private mutating func close(_ keys: [Key], of id: ID) {
    for key in keys where joinable[key] == id { joinable[key] = nil }
  }

  /// Removes a flight that has ended, once all members have received its result.
  private mutating func removeIfDone(_ id: ID) {
    if let flight = flights[id], flight.result != nil, flight.members.isEmpty { flights[id] = nil }
  }
}

extension Lock where Value: Sendable {
  /// Suspends the current task until the flight that it has joined has a result for it.
  ///
  /// - Parameter leave: Removes the member from the flight, and resumes it, when the task is cancelled.
  /// - Throws: The error from `leave`, or `CancellationError` if the task was cancelled before it waited.
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
