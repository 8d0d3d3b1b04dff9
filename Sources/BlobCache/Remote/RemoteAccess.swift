internal import BlobRecord
internal import BlobStore
internal import Locks
internal import MemoryCache
internal import Synchronization

/// The use of a remote tier by a cache, which decides about requests and uploads.
final class RemoteAccess: Sendable {
  let tier: RemoteTier
  private let requests: RemoteRequests
  private let changes: RemoteChanges
  private let absences: FailureMemory
  private let confirmations: Confirmations?
  private let listening = Lock<Task<Void, Never>?>(nil)
  private let isClosed = Atomic(false)
  /// The size of blobs that loads have returned and that are still being stored.
  private let answeredBytes = Atomic(0)

  init(_ tier: RemoteTier, _ environment: RemoteRequests.Environment) {
    self.tier = tier
    requests = RemoteRequests(tier, environment)
    changes = RemoteChanges(by: requests)
    absences = FailureMemory(respondsToMemoryPressure: false, now: environment.monotonicNow)
    confirmations =
      tier.mode.reads ? tier.revalidatesAfter.map { Confirmations(for: $0, now: environment.monotonicNow) } : nil
  }

  var status: RemoteStatus {
    var status = requests.status
    (status.waitingChanges, status.waitingBytes) = changes.load
    return status
  }

  func mayHave(_ key: BlobKey) -> Bool {
    // A pending change is newer than the engine's record.
    tier.mode.reads && absences.failure(of: key) == nil && !changes.isPending(key)
  }

  var isCircuitOpen: Bool { requests.isCircuitOpen }
  func didPassOver() { requests.didPassOver() }

  /// Fetches the record of a key, or returns `nil` if it is absent or does not arrive in time.
  func record(of key: BlobKey) async throws(CancellationError) -> ReceivedRecord? {
    guard let place = requests.place(of: key) else { return nil }
    return note(try await requests.record(at: place), of: key)
  }

  /// Fetches the record of a key like `record(of:)`, into a file that is not yet visible.
  func file<Writer: ReceivedPayloadWriter>(
    of key: BlobKey, _ openWriter: @escaping @Sendable (RecordHeader) async throws -> Writer
  ) async throws -> ReceivedFile<Writer>? {
    guard let place = requests.place(of: key) else { return nil }
    let answer = try await requests.file(at: place, openWriter)
    if case .unkept(let error) = answer { throw error }
    return note(answer, of: key)
  }

  private func note<Record>(_ answer: RemoteRequests.Answer<Record>, of key: BlobKey) -> Record? {
    switch answer {
    case .found(let record):
      // The key was stored or removed during the request.
      return changes.isPending(key) ? nil : record
    case .nothing: absences.note(AbsentRemotely(), of: key, for: tier.remembersAbsenceFor)
    case .damaged: absences.note(AbsentRemotely(), of: key, for: .seconds(60))
    case .unknown, .unkept: break
    }
    return nil
  }

  /// Returns whether a fetched blob may be returned before it is stored. If so, call `didStoreAnswered` later.
  func mayAnswerBeforeStoring(_ byteCount: Int) -> Bool {
    guard tier.answersBeforeStoring else { return false }
    let hasRoom = answeredBytes.add(byteCount, ordering: .relaxed).newValue <= tier.waitingByteLimit
    if !hasRoom { didStoreAnswered(byteCount) }
    return hasRoom
  }

  func didStoreAnswered(_ byteCount: Int) { answeredBytes.subtract(byteCount, ordering: .relaxed) }

  /// Updates the state of a key after a fetched blob was stored, and uploads an old object again.
  func didFetch(_ key: BlobKey, modified: UnixTime?) {
    confirmations?.note(key)
    requests.counts.tell()
    guard tier.mode.writes, let age = tier.rewritesAfter, let modified,
      modified.advanced(bySeconds: age.wholeSeconds) <= requests.environment.now()
    else { return }
    changes.addUnlessPending(.putAgain, of: key)
  }

  /// Uploads a blob after it was stored in the directory, unless a later change of the key supersedes it.
  func didStore(_ blob: Blob, isLatest: () -> Bool) {
    guard tier.mode.writes else { return }
    absences.forget(blob.key)
    guard tier.takes(Int64(blob.payload.count)), let place = requests.place(of: blob.key) else {
      return
    }
    let record = RemoteRecord(
      blob, defaultExpiration: requests.environment.defaultExpiration, to: place, sealedBy: tier.sealKey)
    changes.add(.put(record), of: blob.key)
    // Two changes may reach the directory and this line in different orders. The directory has the later one.
    if !isLatest() { changes.add(.putFromDirectory, of: blob.key) }
  }

  /// Uploads the directory's record, for example after a store in pieces.
  func didChange(_ key: BlobKey, byteCount: Int64? = nil) {
    guard tier.mode.writes else { return }
    absences.forget(key)
    if let byteCount, !tier.takes(byteCount) { return }
    changes.add(.putFromDirectory, of: key)
  }

  func didRemove(_ key: BlobKey) {
    guard tier.mode.writes else { return }
    changes.add(.remove, of: key)
  }

  func isPending(_ key: BlobKey) -> Bool { changes.isPending(key) }

  func remove(prefix: String) async throws -> RemotePrefixRemoval {
    guard tier.namespace.naming != .sha256 else {
      throw RemoteError(.unsupported, "\(tier.engine.name): names by sha256 do not tell their keys")
    }
    let records = RemoteRecords(tier.engine, namespace: tier.namespace)
    var removal = RemotePrefixRemoval()
    var page: String?
    repeat {
      try Task.checkCancellation()
      let found = try await records.page(prefix: prefix, page)
      let keys = found.entries.compactMap(\.key)
      removal.unknown += found.entries.count - keys.count
      // A record that was stored here since is uploaded instead, because the directory is read when the change runs.
      for key in keys { changes.add(.putFromDirectory, of: key) }
      for key in keys {
        if await settled(key) == .done { removal.removed += 1 } else { removal.left += 1 }
      }
      page = found.next
    } while page != nil
    return removal
  }

  var writesThrough: Bool { tier.mode.writes && tier.writing == .through }

  /// Waits without a timeout until the latest change of a key is done, postponed or dropped.
  func ended(_ key: BlobKey) async {
    // The only error is the caller's cancellation, which does not stop the change.
    _ = try? await changes.settled(key)
  }

  /// Waits like `ended(_:)`, at most for the timeout of a change.
  func settled(_ key: BlobKey) async -> RemoteOutcome {
    let (changes, time) = (changes, tier.deadlines.change)
    // The errors are the timeout and the caller's cancellation, neither of which stops the change.
    let outcome = try? await requests.deadline.run(first: time, progress: time, tier.engine.name) { _ in
      try await changes.settled(key)
    }
    return outcome ?? .postponed
  }

  // MARK: - Other machines

  var revalidates: Bool { confirmations != nil }

  func wantsWord(of key: BlobKey) -> Bool {
    guard let confirmations, !confirmations.holds(key), absences.failure(of: key) == nil else { return false }
    // A pending change is newer than the engine's record.
    return !changes.isPending(key)
  }

  func didConfirm(_ key: BlobKey) { confirmations?.note(key) }

  /// Requests the header of the engine's object, or returns `nil` if it is absent or does not arrive in time.
  func header(of key: BlobKey) async throws(CancellationError) -> RecordHeader? {
    guard let place = requests.place(of: key) else { return nil }
    switch try await requests.head(at: place) {
    case .found(let header): return header
    case .nothing:
      // Engines may drop objects, so the blob in the directory stays.
      confirmations?.note(key)
      return nil
    case .damaged:
      absences.note(AbsentRemotely(), of: key, for: .seconds(60))
      return nil
    case .unknown, .unkept: return nil
    }
  }

  /// Requests the header of an object whose blob is not here, or returns `nil` if the object is absent or expired, or if
  /// the header does not arrive in time. The update time is at most now.
  func liveHeader(of key: BlobKey) async throws(CancellationError) -> RecordHeader? {
    guard let place = requests.place(of: key), var header = note(try await requests.head(at: place), of: key) else {
      return nil
    }
    let now = requests.environment.now()
    header.updateTime = min(header.updateTime, UInt64(clamping: now.seconds))
    return header.isExpired(at: now, defaultExpiration: 0) ? nil : header
  }

  /// Returns whether the engine's object is newer than the record here.
  ///
  /// A time in the future says nothing about an object with the same payload, which would be fetched each time.
  func isNewer(_ other: RecordHeader, than own: RecordHeader) -> Bool {
    let isAhead = other.lastUpdate > requests.environment.now()
    return other.lastUpdate > own.lastUpdate && !(isAhead && own.hasPayload(of: other))
  }

  /// Returns whether a blob of this size belongs in the engine. Other blobs are not revalidated.
  func takes(_ header: RecordHeader) -> Bool { tier.takes(Int64(clamping: header.payloadSize)) }

  var leases: RemoteTier.Leases? { tier.mode == .readWrite ? tier.leases : nil }

  func acquireLease(of key: BlobKey) async throws(CancellationError) -> RemoteRequests.Lease {
    guard let leases, let place = requests.place(of: key) else { return .unknown }
    return try await requests.acquireLease(at: place, for: leases.duration)
  }

  func releaseLease(of key: BlobKey) {
    guard let place = requests.place(of: key) else { return }
    Task { [requests] in await requests.releaseLease(at: place) }
  }

  func listen(_ take: @escaping @Sendable (Announcement) async -> Void) {
    guard tier.announcesChanges, tier.mode.reads, let engine = tier.engine as? any RemoteAnnouncing else { return }
    let listener = RemoteListener(
      engine, channel: tier.namespace.channel, clock: tier.clock, pause: { [requests] in requests.pauseAfter($0) })
    let (requests, absences, confirmations) = (requests, absences, confirmations)
    let task = Task {
      await listener.run { text in
        guard let announcement = Announcement(text), announcement.sender != requests.sender else { return }
        absences.forget(announcement.key)
        confirmations?.forget(announcement.key)
        await take(announcement)
      } hasMissed: {
        confirmations?.forgetAll()
      } fails: { error in
        requests.didFailToListen(error)
      }
    }
    listening.withLock { $0 = task }
  }

  /// Waits for pending changes, drops the rest, and closes the engine.
  ///
  /// - Parameter flushTime: The longest time to wait for the changes, or `nil` for the tier's `flushesOnCloseFor`.
  func close(flushingFor flushTime: Duration? = nil) async {
    guard !isClosed.exchange(true, ordering: .relaxed) else { return }
    listening.withLock { $0.take() }?.cancel()
    let (changes, time, engine) = (changes, flushTime ?? tier.flushesOnCloseFor, tier.engine)
    // The only error is the timeout. Then the pending changes are dropped, and each is reported.
    try? await requests.deadline.run(first: time, progress: time, tier.engine.name) { _ in try await changes.drain() }
    requests.close()
    let left = changes.close()
    if left.stores + left.removals > 0 {
      requests.environment.logger.error(
        "closed before \(engine.name) had confirmed \(left.stores) stores and \(left.removals) removals")
    }
    requests.counts.tell()
    // An engine that does not close in time continues to close in the background.
    try? await requests.deadline.run(first: time, progress: time, engine.name) { _ in await engine.close() }
  }
}

struct AbsentRemotely: Error {}

/// Keys whose blobs were recently confirmed by the engine.
final class Confirmations: Sendable {
  /// The maximum number of keys, which take some megabytes. The oldest are evicted, and confirmed again.
  private static let most = 1 << 16

  private let times: MemoryCache<BlobKey, ContinuousClock.Instant>
  private let interval: Duration
  private let now: @Sendable () -> ContinuousClock.Instant

  init(for interval: Duration, now: @escaping @Sendable () -> ContinuousClock.Instant) {
    var configuration = MemoryCacheConfiguration(limits: MemoryCacheLimits(count: Self.most))
    configuration.respondsToMemoryPressure = false
    times = MemoryCache(configuration)
    self.interval = interval
    self.now = now
  }

  func holds(_ key: BlobKey) -> Bool {
    times.value(forKey: key).map { $0.duration(to: now()) < interval } ?? false
  }

  func note(_ key: BlobKey) { times.setValue(now(), forKey: key) }
  func forget(_ key: BlobKey) { times.removeValue(forKey: key) }
  func forgetAll() { times.removeAll() }
}
