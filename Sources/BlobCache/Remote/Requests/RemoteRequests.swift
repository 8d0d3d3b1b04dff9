internal import BlobRecord
internal import BlobStore
internal import Locks
internal import Logging
internal import Synchronization

/// The requests to a remote engine, each with a timeout, admitted by a circuit breaker, and counted.
final class RemoteRequests: Sendable {
  struct Environment: Sendable {
    let now: @Sendable () -> UnixTime
    let monotonicNow: @Sendable () -> ContinuousClock.Instant
    /// The time to live in seconds of a record with ttl 0.
    let defaultExpiration: Int64
    let store: BlobStore
    let reads: Lane
    let tell: @Sendable (CacheEvent) -> Void
    let logger: Logger
  }

  /// The kinds of request. Each has a circuit breaker, because an engine may fail for one of them alone.
  enum Kind: Hashable, Sendable, CaseIterable {
    /// A request for a record or for its header.
    case load
    case store, removal
    /// A lease, or an announcement.
    case help
  }

  let tier: RemoteTier
  let environment: Environment
  /// The identity of this cache for the others that share the engine.
  let sender = "\(UInt64.random(in: 0 ... .max))"
  private let breakers: [Kind: CircuitBreaker]
  /// The kinds of request of which a forbidden one has been logged.
  let loggedForbidden = Lock<Set<Kind>>([])
  let deadline: Deadline
  let counts: RemoteCounts
  let isClosed = Atomic(false)

  init(_ tier: RemoteTier, _ environment: Environment) {
    self.tier = tier
    self.environment = environment
    counts = RemoteCounts(of: environment.store)
    breakers = Dictionary(
      uniqueKeysWithValues: Kind.allCases.map {
        ($0, CircuitBreaker(tier.breaker, now: environment.monotonicNow, jitter: tier.jitter))
      })
    deadline = Deadline(clock: tier.clock)
  }

  var status: RemoteStatus {
    var status = counts.status
    status.engine = tier.engine.name
    status.condition = breaker(for: .load).condition
    let conditions = [Kind.store, .removal].map { breaker(for: $0).condition }
    status.changeCondition = [.leftAlone, .tried].first { conditions.contains($0) } ?? .inUse
    return status
  }

  func breaker(for kind: Kind) -> CircuitBreaker {
    guard let breaker = breakers[kind] else { preconditionFailure("each kind of request has a circuit breaker") }
    return breaker
  }

  func place(of key: BlobKey) -> RemotePlace? {
    do throws(KeyError) {
      return try RemotePlace(of: key, in: tier.namespace)
    } catch {
      // The blob is only stored here, because no machine can name its object.
      environment.logger.debug("\(key): no name in \(tier.engine.name): \(error)")
      return nil
    }
  }

  var isCircuitOpen: Bool { pause(for: .load) != nil }
  func didPassOver() { counts.change { $0.passedOver += 1 } }

  /// The remaining time for which no request of a kind is sent, or `nil` if one may be sent.
  func pause(for kind: Kind) -> Duration? { breaker(for: kind).pause }

  func close() { isClosed.store(true, ordering: .relaxed) }

  func pauseAfter(_ failures: Int) -> Duration {
    let longest = tier.breaker.longestPause
    return min(.milliseconds(300) * (1 << min(failures - 1, 16)), longest) * tier.jitter()
  }
}

// MARK: - Loads

extension RemoteRequests {
  enum Answer<Record: Sendable>: Sendable {
    case found(Record)
    case nothing
    /// The object is not a valid record of the key.
    case damaged
    /// The engine has failed, or is skipped.
    case unknown
    /// The engine has the record, but this machine cannot store it.
    case unkept(any Error)
  }

  func record(at place: RemotePlace) async throws(CancellationError) -> Answer<ReceivedRecord> {
    try await load(at: place, byteCount: { $0.payload.count }) { object, pace in
      var payload = Data()
      // The reported size is limited, because it is not checked yet.
      payload.reserveCapacity(Int(min(max(object.byteCount ?? 0, 0), 1 << 22)))
      let end = try await self.receive(object, at: place, pace) { payload.append($1) }
      guard let end, let header = self.settled(end.header, modified: object.modified) else { return nil }
      return ReceivedRecord(
        header: header, payload: payload, extendedData: end.extendedData, modified: object.modified)
    }
  }

  /// Fetches the record of a key into a file that is not yet visible. `openWriter` receives the unverified header.
  func file<Writer: ReceivedPayloadWriter>(
    at place: RemotePlace, _ openWriter: @escaping @Sendable (RecordHeader) async throws -> Writer
  ) async throws(CancellationError) -> Answer<ReceivedFile<Writer>> {
    try await load(at: place, byteCount: { Int(clamping: $0.header.payloadSize) }) { object, pace in
      var writer: Writer?
      do {
        let end = try await self.receive(object, at: place, pace) { header, piece in
          try await Self.append(piece, to: &writer) { try await openWriter(header) }
        }
        if let end, let writer, let header = self.settled(end.header, modified: object.modified) {
          return ReceivedFile(
            header: header, writer: writer, extendedData: end.extendedData, modified: object.modified)
        }
        await writer?.giveUp()
        return nil
      } catch {
        await writer?.giveUp()
        throw error
      }
    }
  }

  /// Appends a piece to a writer, which is opened for the first piece.
  ///
  /// - Throws: `UnkeptRecord`, because the engine did not cause a failure of the writer.
  private static func append<Writer: ReceivedPayloadWriter>(
    _ piece: Data, to writer: inout Writer?, orOpen open: () async throws -> Writer
  ) async throws(UnkeptRecord) {
    do {
      let opened = if let writer { writer } else { try await open() }
      writer = opened
      if !piece.isEmpty { try await opened.append(piece) }
    } catch {
      throw UnkeptRecord(cause: error)
    }
  }

  /// Fetches only the header of a key's object.
  func head(at place: RemotePlace) async throws(CancellationError) -> Answer<RecordHeader> {
    try await ask(about: place) { engine, _ -> RecordHeader? in
      guard let head = try await engine.head(place.name) else { return nil }
      var facts = RecordFacts()
      facts.nameDigest = place.digest
      guard case .sound(let header) = RecordJudge().judge(head.bytes, facts) else {
        throw RemoteError(.damaged, "\(engine.name): \(place.name) does not begin like a record of its key")
      }
      return header
    }
  }

  /// Returns a header whose update time is at most now, or `nil` if its record is then expired.
  ///
  /// A machine whose clock is ahead stores records that other machines would keep too long. The time at which the
  /// engine stored the object is then the best estimate, because the copies of a later fetch must expire too.
  private func settled(_ header: RecordHeader, modified: UnixTime?) -> RecordHeader? {
    let now = environment.now()
    guard header.lastUpdate > now else { return header }
    var header = header
    header.updateTime = UInt64(clamping: min(now, modified ?? now).seconds)
    return header.isExpired(at: now, defaultExpiration: 0) ? nil : header
  }

  private func load<Record: Sendable>(
    at place: RemotePlace, byteCount: (Record) -> Int,
    _ take: @escaping @Sendable (RemoteObject, Deadline.Pace) async throws -> Record?
  ) async throws(CancellationError) -> Answer<Record> {
    let answer = try await ask(about: place) { engine, pace -> Record? in
      guard let object = try await engine.get(place.name) else { return nil }
      pace.move()
      return try await take(object, pace)
    }
    counts.change { counts in
      switch answer {
      case .found(let record):
        counts.hits += 1
        counts.loadedBytes += Int64(byteCount(record))
      case .nothing: counts.misses += 1
      case .damaged, .unknown, .unkept: break
      }
    }
    return answer
  }

  private func ask<Record: Sendable>(
    about place: RemotePlace,
    _ body: @escaping @Sendable (any RemoteEngine, Deadline.Pace) async throws -> Record?
  ) async throws(CancellationError) -> Answer<Record> {
    let breaker = breaker(for: .load)
    guard !isClosed.load(ordering: .relaxed), let ticket = breaker.admit() else {
      didPassOver()
      return .unknown
    }
    do {
      let (engine, times) = (tier.engine, tier.deadlines)
      let record = try await deadline.run(first: times.firstByte, progress: times.progress, engine.name) { pace in
        try await body(engine, pace)
      }
      counts.change { $0.requests += 1 }
      noteSuccess(breaker)
      return record.map { .found($0) } ?? .nothing
    } catch let error as UnkeptRecord where !Task.isCancelled {
      counts.change { $0.requests += 1 }
      noteSuccess(breaker)
      return .unkept(error.cause)
    } catch {
      guard !Task.isCancelled else {
        breaker.leave(ticket)
        throw CancellationError()
      }
      return switch note(error, of: place.key, .load, ticket).kind {
      case .damaged: .damaged
      // Amazon S3 answers so for an absent object if the caller may not list the bucket.
      case .forbidden: .nothing
      default: .unknown
      }
    }
  }

  /// Receives the bytes of an object and applies the timeouts, or returns `nil` if the record is expired.
  ///
  /// - Parameter accept: A closure that receives the header and the next bytes of the payload, at least once.
  private func receive(
    _ object: RemoteObject, at place: RemotePlace, _ pace: Deadline.Pace,
    _ accept: (RecordHeader, Data) async throws -> Void
  ) async throws -> (header: RecordHeader, extendedData: Data?)? {
    let name = tier.engine.name
    let most = tier.payloadSizes.upperBound.saturatingAdding(Int64(RemoteTier.overheadByteCount))
    func tooLong() -> RemoteError { RemoteError(.damaged, "\(name): \(place.name) is longer than \(most) bytes") }
    if let count = object.byteCount, count > most { throw tooLong() }
    var arriving = ArrivingRecord(
      at: place, statedByteCount: object.byteCount, most: most,
      seal: tier.sealKey.map { RecordSeal($0, of: place.name) },
      now: environment.now(), from: name)
    var (count, hasBegun) = (Int64(0), false)
    // The start of the answer, moved by the time that this machine needed to write the pieces.
    var start = environment.monotonicNow()
    for try await piece in object.pieces where !piece.isEmpty {
      pace.move()
      // A slow trickle of bytes counts as progress, but must not prolong the answer without limit.
      let longest = tier.deadlines.answer + tier.deadlines.perMebibyte * Double(count) / Double(1 << 20)
      guard start.duration(to: environment.monotonicNow()) <= longest else {
        throw RemoteError(.timedOut, "\(name) takes more than \(longest) for \(count) bytes of \(place.name)")
      }
      count += Int64(piece.count)
      if count > most { throw tooLong() }
      let payload = try arriving.take(piece)
      guard !arriving.isExpired else { return nil }
      guard let header = arriving.header, !payload.isEmpty || !hasBegun else { continue }
      hasBegun = true
      // The time of a slow local disk does not count as the engine's.
      let began = environment.monotonicNow()
      pace.pause()
      try await accept(header, payload)
      pace.move()
      start = start.advanced(by: began.duration(to: environment.monotonicNow()))
    }
    if let stated = object.byteCount, stated != count {
      throw RemoteError(.unreachable, "\(name): \(place.name) broke off after \(count) of \(stated) bytes")
    }
    return try arriving.end()
  }
}

/// An error of storing a received record on this machine.
private struct UnkeptRecord: Error {
  let cause: any Error
}

extension Deadline {
  /// Runs a request with a timeout for the first piece, and one between later pieces, which it reports to `Pace`.
  func run<Result: Sendable>(
    first: Duration, progress: Duration, _ engine: String,
    _ call: @escaping @Sendable (Pace) async throws -> Result
  ) async throws -> Result {
    try await run(
      first: first, progress: progress,
      failure: { hasBegun, time in
        let what = hasBegun ? "stopped in the middle of an answer" : "did not answer"
        return RemoteError(.timedOut, "\(engine) \(what) for \(time)")
      }, call)
  }
}
