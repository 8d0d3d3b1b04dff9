internal import BlobRecord
internal import BlobStore
internal import Locks

/// One version of a large object, which is shared by all its `CacheSlices` of the process.
final class SlicedObject: Sendable {
  typealias Fetch = @Sendable (Range<Int64>) async throws -> Data

  let layout: SliceLayout
  let flights = SliceFlights()
  let agreement: SliceAgreement
  private let engine: CacheEngine

  init(_ layout: SliceLayout, _ engine: CacheEngine) {
    self.layout = layout
    self.engine = engine
    agreement = SliceAgreement(layout, engine)
  }

  deinit { engine.slicedObjects.forget(layout.key, ObjectIdentifier(self)) }

  private struct Lookup: Sendable {
    /// The key's history before the lookup.
    let history: KeyHistory?
    /// The bytes, or `nil` if the slice is missing or was not read.
    var bytes: Data?
    let isThere: Bool
  }
}

// MARK: - Reading

extension SlicedObject {
  /// Returns the bytes of adjacent slices, and fetches the missing ones.
  func slices(_ indices: Range<Int64>, _ options: SliceOptions, _ fetch: @escaping Fetch) async throws -> [Data] {
    try await agreement.prepare(options)
    let lookups = try await lookups(at: indices)
    var found = lookups.map(\.bytes)
    let missing = indices.filter { found[Int($0 - indices.lowerBound)] == nil }
    let tickets = flights.join(missing, most: most(options))
    for ticket in tickets where ticket.isNew { start(ticket, lookups, from: indices.lowerBound, options, fetch) }
    for (position, ticket) in tickets.enumerated() {
      do {
        let slices = try await flights.wait(ticket)
        for index in ticket.slices.clamped(to: indices) {
          found[Int(index - indices.lowerBound)] = slices[Int(index - ticket.slices.lowerBound)]
        }
      } catch {
        for ticket in tickets[(position + 1)...] { flights.leave(ticket) }
        throw error
      }
    }
    return found.compactMap { $0 }
  }

  /// Starts fetches of the missing slices in a range.
  ///
  /// It reads only the headers of slices, so present slices are neither read nor counted as used. If its task is
  /// cancelled, the fetches that no read has joined are cancelled.
  func readAhead(_ indices: Range<Int64>, _ options: SliceOptions, _ fetch: @escaping Fetch) async throws {
    try await agreement.prepare(options)
    var tickets: [SliceFlights.Ticket] = []
    defer { for ticket in tickets { flights.leave(ticket) } }
    var first = indices.lowerBound
    while first < indices.upperBound {
      let window = first..<min(indices.upperBound, first + most(options))
      first = window.upperBound
      let lookups = try await lookupsAhead(at: window)
      let missing = window.filter { !lookups[Int($0 - window.lowerBound)].isThere }
      let joined = flights.join(missing, most: most(options), onlyNew: true)
      for ticket in joined { start(ticket, lookups, from: window.lowerBound, options, fetch) }
      tickets += joined
      // The number of fetches is limited, because their bytes are in memory, and to limit the load on the source.
      while tickets.count >= Self.mostFetchesAhead { try await land(tickets.removeFirst()) }
    }
    while !tickets.isEmpty { try await land(tickets.removeFirst()) }
  }

  /// Waits for a fetch, whose error is thrown again by the read of its slices.
  private func land(_ ticket: SliceFlights.Ticket) async throws {
    do {
      _ = try await flights.wait(ticket)
    } catch {
      try Task.checkCancellation()
    }
  }

  /// The maximum number of concurrent requests of one read-ahead.
  private static let mostFetchesAhead = 4

  func most(_ options: SliceOptions) -> Int64 { max(1, Int64(options.requestSize) / layout.sliceSize) }

  private func lookups(at indices: Range<Int64>) async throws -> [Lookup] {
    try await engine.lanes.reads.run { [self] queueTime in
      try indices.map { index in
        let key = layout.key(ofSlice: index)
        // The history is read before the lookup, so that later changes are detected.
        let history = try engine.store.history(of: key)
        let bytes = try engine.readSlice(key, byteCount(of: index), queueTime: queueTime)?.payload
        return Lookup(history: history, bytes: bytes, isThere: bytes != nil)
      }
    }
  }

  private func lookupsAhead(at indices: Range<Int64>) async throws -> [Lookup] {
    try await engine.lanes.reads.run { [self] _ in
      try indices.map { index in
        let key = layout.key(ofSlice: index)
        let history = try engine.store.history(of: key)
        return Lookup(history: history, isThere: try engine.hasSlice(key, byteCount(of: index)))
      }
    }
  }

  private func byteCount(of index: Int64) -> Int { layout.range(ofSlices: index..<index + 1).count }
}

// MARK: - Fetching

extension SlicedObject {
  private func start(
    _ ticket: SliceFlights.Ticket, _ lookups: [Lookup], from first: Int64, _ options: SliceOptions,
    _ fetch: @escaping Fetch
  ) {
    let histories = ticket.slices.map { lookups[Int($0 - first)].history }
    let task = Task { [self] in
      do {
        flights.finish(ticket, .success(try await fly(ticket.slices, histories, options, fetch)))
      } catch {
        flights.finish(ticket, .failure(error))
      }
    }
    flights.attach(task, to: ticket)
  }

  private enum Place: Sendable {
    case found(Data)
    case missing(StoreCondition)
  }

  private func fly(
    _ slices: Range<Int64>, _ histories: [KeyHistory?], _ options: SliceOptions, _ fetch: Fetch
  ) async throws -> [Data] {
    let removalCount = agreement.removalCount
    // The manifest may have been removed since the read began, or describe another process's version.
    let isAgreed = try await agreement.isAgreed(options)
    let places = try await places(of: slices, histories, isAgreed ? removalCount : nil, options)
    var bytes: [Data] = []
    while bytes.count < places.count {
      if case .found(let data) = places[bytes.count] {
        bytes.append(data)
        continue
      }
      let run = places[bytes.count...].prefix { if case .missing = $0 { true } else { false } }
      let first = slices.lowerBound + Int64(run.startIndex)
      bytes += try await fetched(first..<first + Int64(run.count), run, options, fetch)
    }
    return bytes
  }

  /// Looks up the slices that have changed since they were found missing, because another fetch may have stored them.
  ///
  /// A `removalCount` of `nil` means that the manifest on disk is not known to be this version's. Then nothing may be
  /// stored, because no later version would remove it.
  private func places(
    of slices: Range<Int64>, _ histories: [KeyHistory?], _ removalCount: Int?, _ options: SliceOptions
  ) async throws -> [Place] {
    try await engine.lanes.writes.run { [self] queueTime in
      try zip(slices, histories).map { index, history in
        let key = layout.key(ofSlice: index)
        let isWanted = { @Sendable [agreement] in
          agreement.removalCount == removalCount && !agreement.isOutdated
        }
        let current = removalCount != nil ? try engine.store.firstHistory(of: key) : history ?? KeyHistory()
        if current != history, let found = try engine.readSlice(key, byteCount(of: index), queueTime: queueTime) {
          return .found(found.payload)
        }
        return .missing(StoreCondition(history: current, isWanted: isWanted))
      }
    }
  }

  private func fetched(
    _ slices: Range<Int64>, _ places: ArraySlice<Place>, _ options: SliceOptions, _ fetch: Fetch
  ) async throws -> [Data] {
    let range = layout.range(ofSlices: slices)
    let stopwatch = engine.observer.stopwatch()
    let answer = try await withSpan("fetch", layout.key) { try await fetch(range) }
    // The last read may have left, and a cancelled closure may return fewer bytes.
    try Task.checkCancellation()
    guard answer.count == range.count else {
      throw BlobCacheError(
        .sizeMismatch,
        "\(answer.count) bytes were fetched where \(range.count) were asked for, from \(range.lowerBound) on",
        key: layout.key)
    }
    engine.observer.tell(
      CacheEvent(.produced, layout.key, byteCount: answer.count, duration: stopwatch.elapsed))
    let bytes = slices.map { index in
      let part = layout.range(ofSlices: index..<index + 1)
      let start = answer.startIndex + Int(part.lowerBound - range.lowerBound)
      // A copy, so that one slice does not keep the others in memory.
      return answer.subdata(in: start..<start + part.count)
    }
    let stored = try await engine.lanes.writes.run { [self] queueTime in
      try zip(zip(slices, places), bytes).compactMap { item, data -> BlobKey? in
        let key = layout.key(ofSlice: item.0)
        guard case .missing(let condition) = item.1,
          try store(data, for: key, if: condition, options, queueTime: queueTime)
        else { return nil }
        return key
      }
    }
    if !stored.isEmpty { try await confirm(stored, options) }
    return bytes
  }

  /// Returns `false` if the key was changed in the meantime, or for an error if `answersUnstored` is set.
  private func store(
    _ bytes: Data, for key: BlobKey, if condition: StoreCondition, _ options: SliceOptions, queueTime: Duration
  ) throws -> Bool {
    do {
      return try engine.storeSlice(bytes, for: key, ttl: options.ttl, if: condition, queueTime: queueTime)
    } catch let error as BlobStoreError where options.answersUnstored {
      engine.tellUnstored(error, key, byteCount: bytes.count)
      return false
    }
  }

  /// Removes slices that were stored while another process replaced this version with a later one.
  private func confirm(_ keys: [BlobKey], _ options: SliceOptions) async throws {
    if try agreement.knownAnswer(options) == true { return }
    // This also runs without any waiting read, because the manifest must describe all stored slices.
    try await Task { [self] in
      guard try await !agreement.isAgreed(options) else { return }
      try await engine.lanes.removals.run { [self] queueTime in
        for key in keys { _ = try engine.remove(key, if: nil, queueTime: queueTime, isOfRemote: false) }
      }
    }.value
  }
}

final class SlicedObjects: Sendable {
  /// A class, because with a structure of a weak and another property, Swift 6.3 crashes if a key is absent.
  private final class Entry: Sendable {
    weak let object: SlicedObject?
    /// The identity of the object, which does not retain it.
    let identity: ObjectIdentifier

    init(_ object: SlicedObject) {
      self.object = object
      identity = ObjectIdentifier(object)
    }
  }

  private let entries = Lock<[BlobKey: Entry]>([:])

  /// Returns the object of a layout, and marks an object of the same key with another layout as outdated.
  func object(_ layout: SliceLayout, _ engine: CacheEngine) -> SlicedObject {
    let (object, other) = entries.withLock { entries -> (SlicedObject, SlicedObject?) in
      let present = entries[layout.key]?.object
      if let present, present.layout == layout, !present.agreement.isOutdated { return (present, nil) }
      let object = SlicedObject(layout, engine)
      entries[layout.key] = Entry(object)
      return (object, present)
    }
    // This runs outside of the lock, because a `deinit` acquires it.
    other?.agreement.setOutdated()
    return object
  }

  /// Removes the entry of a deallocated object, unless another object already has its key.
  func forget(_ key: BlobKey, _ identity: ObjectIdentifier) {
    entries.withLock { entries in
      // The object is not retained here, because releasing the last reference would run `deinit` within the lock.
      if entries[key]?.identity == identity { entries[key] = nil }
    }
  }

  var count: Int { entries.withLock { $0.count } }
}
