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

  let tier: RemoteTier
  let environment: Environment
  /// The identity of this cache for the others that share the engine.
  let sender = "\(UInt64.random(in: 0 ... .max))"
  /// The circuit breakers of loads, of changes, and of leases and announcements. Each kind of request can fail alone.
  let (breaker, changeBreaker, helpBreaker): (CircuitBreaker, CircuitBreaker, CircuitBreaker)
  let deadline: Deadline
  let counts: RemoteCounts
  let isClosed = Atomic(false)

  init(_ tier: RemoteTier, _ environment: Environment) {
    self.tier = tier
    self.environment = environment
    counts = RemoteCounts(of: environment.store)
    func makeBreaker() -> CircuitBreaker {
      CircuitBreaker(tier.breaker, now: environment.monotonicNow, jitter: tier.jitter)
    }
    (breaker, changeBreaker, helpBreaker) = (makeBreaker(), makeBreaker(), makeBreaker())
    deadline = Deadline(clock: tier.clock)
  }

  var status: RemoteStatus {
    var status = counts.status
    status.engine = tier.engine.name
    status.condition = breaker.condition
    status.changeCondition = changeBreaker.condition
    return status
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

  var isCircuitOpen: Bool { breaker.pause != nil }
  func didPassOver() { counts.change { $0.passedOver += 1 } }

  /// The remaining time for which no change is sent, or `nil` if one may be sent.
  var pause: Duration? { changeBreaker.pause }

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
      return end.map {
        ReceivedRecord(
          header: $0.header, payload: payload, extendedData: $0.extendedData, modified: object.modified)
      }
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
          do {
            let open = if let writer { writer } else { try await openWriter(header) }
            writer = open
            if !piece.isEmpty { try await open.append(piece) }
          } catch {
            throw UnkeptRecord(cause: error)
          }
        }
        if let end, let writer {
          return ReceivedFile(
            header: end.header, writer: writer, extendedData: end.extendedData, modified: object.modified)
        }
        await writer?.giveUp()
        return nil
      } catch {
        await writer?.giveUp()
        throw error
      }
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
      let failure = note(error, of: place.key, breaker, ticket)
      return failure.kind == .damaged ? .damaged : .unknown
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

// MARK: - Changes

extension RemoteRequests {
  func put(_ record: RemoteRecord, of key: BlobKey) async throws(RemoteError) {
    guard let place = place(of: key) else { return }
    try await change(key, byteCount: record.byteCount) { try await $0.put(record, as: place.name) }
    counts.change { counts in
      counts.uploads += 1
      counts.uploadedBytes += Int64(record.payloadByteCount)
    }
    environment.tell(CacheEvent(.uploaded, key, byteCount: record.payloadByteCount))
    announce(key, checksum: record.payloadChecksum)
  }

  /// Uploads the directory's current record of a key, or removes the object of a missing record if `removes` is set.
  func putFromDirectory(_ key: BlobKey, orRemove removes: Bool) async throws(RemoteError) {
    guard let place = place(of: key) else { return }
    let record: RemoteRecord?
    do {
      let reader = try await environment.reads.run { [store = environment.store] _ in
        try store.openReader(for: key, touching: false, isLoad: false)
      }
      if let reader, !tier.takes(reader.byteCount) { return }
      if let reader {
        let file = RemotePayloadFile(reader: reader, lane: environment.reads)
        record = try await RemoteRecord(
          file, defaultExpiration: environment.defaultExpiration, to: place, sealedBy: tier.sealKey)
      } else {
        record = nil
      }
    } catch {
      throw RemoteError(.unsupported, "\(key) cannot be read here: \(error)", cause: error)
    }
    guard let record else {
      if removes { try await remove(key) }
      return
    }
    try await put(record, of: key)
  }

  func remove(_ key: BlobKey) async throws(RemoteError) {
    guard let place = place(of: key) else { return }
    try await change(key, byteCount: 0) { try await $0.remove(place.name) }
    counts.change { $0.removals += 1 }
    announce(key, checksum: nil)
  }

  private func change(
    _ key: BlobKey, byteCount: Int, _ body: @escaping @Sendable (any RemoteEngine) async throws -> Void
  ) async throws(RemoteError) {
    guard !isClosed.load(ordering: .relaxed), let ticket = changeBreaker.admit() else {
      var error = RemoteError(.unreachable, "\(tier.engine.name) has failed, and is left alone for a while")
      error.wasNotTried = true
      throw error
    }
    let (engine, times) = (tier.engine, tier.deadlines)
    let time = times.change + times.perMebibyte * Double(byteCount) / Double(1 << 20)
    do {
      try await deadline.run(first: time, progress: time, engine.name) { _ in try await body(engine) }
      counts.change { $0.requests += 1 }
      noteSuccess(changeBreaker)
    } catch {
      guard !Task.isCancelled else {
        changeBreaker.leave(ticket)
        throw RemoteError(.failed, "the cache was closed before \(engine.name) had \(key)", cause: error)
      }
      throw note(error, of: key, changeBreaker, ticket)
    }
  }
}

// MARK: - Failures

extension RemoteRequests {
  private func noteSuccess(_ breaker: CircuitBreaker) {
    // The level is that of the earlier message that the engine is skipped.
    if breaker.succeed() { environment.logger.warning("\(tier.engine.name) answers again") }
  }

  private func note(
    _ error: any Error, of key: BlobKey, _ breaker: CircuitBreaker, _ ticket: CircuitBreaker.Ticket
  ) -> RemoteError {
    var failure = RemoteError(anything: error, from: tier.engine.name)
    if let here = (failure.cause ?? error) as? BlobStoreError {
      // The record to upload could not be read here.
      failure = RemoteError(.unsupported, "\(key) cannot be read here: \(here)", cause: here)
    }
    counts.change { counts in
      counts.requests += 1
      counts.failures += 1
      if failure.kind == .damaged { counts.damaged += 1 }
    }
    if failure.kind == .damaged || failure.kind == .unsupported {
      // The engine itself is available.
      noteSuccess(breaker)
      environment.logger.warning("\(failure)")
    } else if breaker.fail(failure.kind, ticket) {
      environment.logger.log(
        level: failure.kind == .refused ? .error : .warning, "\(failure); it is left alone for a while")
    }
    environment.tell(CacheEvent(.remoteFailed(failure), key))
    return failure
  }

  func didDrop(_ key: BlobKey, isRemoval: Bool) {
    counts.change { counts in
      if isRemoval { counts.droppedRemovals += 1 } else { counts.droppedUploads += 1 }
    }
    environment.tell(CacheEvent(.remoteChangeDropped, key))
  }
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
