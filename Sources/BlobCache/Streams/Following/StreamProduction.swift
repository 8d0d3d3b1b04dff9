internal import BlobRecord
internal import Locks

/// A blob that this process writes while others read it, with the progress of its readers.
final class StreamProduction: Sendable {
  fileprivate struct State {
    var hasReaders = true
    var furthest: Int64 = 0
    var ahead = WaitList<SuspendedTask<Void, Int64>>()
  }

  let key: BlobKey
  let options: StreamOptions
  fileprivate let flight: StreamTable.Flights.ID
  /// The event that bytes can be read, or that there will be no bytes.
  let opening = Moment()
  private let state = Lock(State())

  fileprivate init(_ key: BlobKey, _ options: StreamOptions, in flight: StreamTable.Flights.ID) {
    self.key = key
    self.options = options
    self.flight = flight
  }

  func didRead(to offset: Int64) {
    let ahead = state.withLock { state in
      state.furthest = max(state.furthest, offset)
      return state.ahead.removeAll { [furthest = state.furthest] in $0.note <= furthest }
    }
    for append in ahead { append.continuation.resume() }
  }

  /// Waits until a reader has passed an offset, or there are no readers.
  func waitForReaders(toPass offset: Int64) async throws {
    try await state.wait(in: \.ahead, for: offset) { state, _ in
      state.furthest >= offset || !state.hasReaders ? () : nil
    }
    try Task.checkCancellation()
  }

  fileprivate func setHasReaders(_ hasReaders: Bool) {
    let ahead = state.withLock { state in
      state.hasReaders = hasReaders
      return hasReaders ? [] : state.ahead.removeAll()
    }
    for append in ahead { append.continuation.resume() }
  }
}

/// The streams that are produced in this process: one for each key.
///
/// The members of a stream's flight are its readers. When the last one leaves, its producer is cancelled, unless
/// `finishesAlone` is set; the next stream of the key begins when the cancelled one has ended.
final class StreamTable: Sendable {
  typealias Flights = SingleFlight<BlobKey, StreamProduction, Void>

  struct Reader: Sendable {
    let production: StreamProduction
    fileprivate let ticket: Flights.Ticket
  }

  private let flights = Lock(Flights())

  func production(of key: BlobKey) -> StreamProduction? {
    flights.withLock { flights in flights.flight(of: key).flatMap { flights.subject(of: $0) } }
  }

  /// Returns the production of a key. If it is new, the caller is its first reader and must begin it.
  func production(of key: BlobKey, _ options: StreamOptions) -> (StreamProduction, beginner: Reader?) {
    flights.withLock { flights in
      if let production = flights.flight(of: key).flatMap({ flights.subject(of: $0) }) { return (production, nil) }
      let (flight, production) = flights.begin([key], outlivesMembers: options.finishesAlone, keepsKeys: true) {
        StreamProduction(key, options, in: $0)
      }
      return (production, Reader(production: production, ticket: flights.join(flight, isNew: true)))
    }
  }

  func start(_ production: StreamProduction, _ produce: @escaping @Sendable () async -> Void) {
    let producer = Task { @concurrent in await produce() }
    if flights.withLock({ $0.attach(producer, to: production.flight) }) { producer.cancel() }
  }

  /// Adds a reader, or returns `nil` if the last one has left and the producer ends.
  func join(_ production: StreamProduction) -> Reader? {
    flights.withLock { flights in
      guard flights.canBeJoined(production.flight) else { return nil }
      production.setHasReaders(true)
      return Reader(production: production, ticket: flights.join(production.flight, isNew: false))
    }
  }

  func leave(_ reader: Reader) { leave(reader.ticket, of: reader.production, isOver: true) }

  private func leave(_ ticket: Flights.Ticket, of production: StreamProduction, isOver: Bool) {
    let departure = flights.withLock { flights in
      let departure = flights.leave(ticket, isOver: isOver)
      // Without readers, appends do not wait.
      if flights.memberCount(of: production.flight) == 0 { production.setHasReaders(false) }
      return departure
    }
    departure.task?.cancel()
    departure.waiter?.resume(throwing: CancellationError())
  }

  /// Makes the next stream of the key begin another production. The readers of this one keep it.
  func withdraw(_ production: StreamProduction) {
    flights.withLock { flights in
      if flights.flight(of: production.key) == production.flight { _ = flights.withdraw(production.key) }
    }
    production.opening.come()
  }

  func end(_ production: StreamProduction, _ result: Result<Void, any Error>) {
    let waiters = flights.withLock { $0.finish(production.flight, result) }
    production.opening.come()
    for waiter in waiters { waiter.resume(returning: result) }
  }

  /// Waits for the end of a production, and returns its error, which is kept for its readers.
  ///
  /// - Throws: `CancellationError` if the task is cancelled.
  func failure(of production: StreamProduction) async throws -> (any Error)? {
    let ticket = flights.withLock { flights in
      flights.subject(of: production.flight) == nil ? nil : flights.join(production.flight, isNew: false)
    }
    guard let ticket else { return nil }
    let result = try await flights.result(of: ticket, in: \.self) { leave(ticket, of: production, isOver: false) }
    if case .failure(let error) = result { return error }
    return nil
  }
}
