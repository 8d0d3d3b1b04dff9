internal import BlobRecord
internal import BlobStore
internal import Locks
internal import MemoryCache
internal import Synchronization

/// A cache's use of its remote tier: whether a key is asked for there, and what goes there.
final class RemoteAccess: Sendable {
  let tier: RemoteTier
  private let requests: RemoteRequests
  private let changes: RemoteChanges
  /// Keys that the engine had nothing of a short while ago.
  private let absences: FailureMemory
  /// nil where the engine's word does not age.
  private let confirmations: Confirmations?
  private let listening = Lock<Task<Void, Never>?>(nil)
  private let isClosed = Atomic(false)
  /// Bytes that loads have answered, and that are still being stored.
  private let answeredBytes = Atomic(0)

  /// Asks the engine nothing.
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

  /// Whether a load asks the engine for a key.
  func mayHave(_ key: BlobKey) -> Bool {
    // What is on its way there is newer than what is there.
    tier.mode.reads && absences.failure(of: key) == nil && !changes.isPending(key)
  }

  /// Whether loads pass the engine over now.
  var isCircuitOpen: Bool { requests.isCircuitOpen }
  /// A load has passed it over.
  func didPassOver() { requests.didPassOver() }

  /// The record that the engine has of a key; nil if it has none, or does not say so in time.
  ///
  /// - Throws: `CancellationError` if the task is cancelled.
  func record(of key: BlobKey) async throws(CancellationError) -> ReceivedRecord? {
    guard let place = requests.place(of: key) else { return nil }
    return note(try await requests.record(at: place), of: key)
  }

  /// The record that the engine has of a key, in a file without a place; nil as for `record`.
  ///
  /// - Throws: `CancellationError` if the task is cancelled; what `openWriter` throws.
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
      // A removal has come meanwhile, or a store.
      return changes.isPending(key) ? nil : record
    case .nothing: absences.note(AbsentRemotely(), of: key, for: tier.remembersAbsenceFor)
    case .damaged: absences.note(AbsentRemotely(), of: key, for: .seconds(60))
    case .unknown, .unkept: break
    }
    return nil
  }

  /// Whether a fetched blob is answered before it is stored. If so, `didStoreAnswered` follows.
  func mayAnswerBeforeStoring(_ byteCount: Int) -> Bool {
    guard tier.answersBeforeStoring else { return false }
    let hasRoom = answeredBytes.add(byteCount, ordering: .relaxed).newValue <= tier.waitingByteLimit
    if !hasRoom { didStoreAnswered(byteCount) }
    return hasRoom
  }

  func didStoreAnswered(_ byteCount: Int) { answeredBytes.subtract(byteCount, ordering: .relaxed) }

  /// A blob that the engine had has its place in the directory.
  ///
  /// - Parameter modified: when it was put there, by the engine's clock; nil if that is not known.
  func didFetch(_ key: BlobKey, modified: UnixTime?) {
    confirmations?.note(key)
    requests.counts.tell()
    guard tier.mode.writes, let age = tier.rewritesAfter, let modified,
      modified.advanced(bySeconds: age.wholeSeconds) <= requests.environment.now()
    else { return }
    changes.addUnlessPending(.putAgain, of: key)
  }

  /// A blob has its place in the directory.
  ///
  /// - Parameter isLatest: whether nothing has changed the key since.
  func didStore(_ blob: Blob, isLatest: () -> Bool) {
    guard tier.mode.writes else { return }
    absences.forget(blob.key)
    guard tier.takes(Int64(blob.payload.count)), let place = requests.place(of: blob.key) else {
      return
    }
    let record = RemoteRecord(
      blob, defaultExpiration: requests.environment.defaultExpiration, to: place, sealedBy: tier.sealKey)
    changes.add(.put(record), of: blob.key)
    // Another change may have come before it in the directory, and after it here. The directory knows.
    if !isLatest() { changes.add(.putFromDirectory, of: blob.key) }
  }

  /// A blob has come in pieces, or what lies beside it was replaced.
  ///
  /// - Parameter byteCount: its payload's size; nil if that is as it was.
  func didChange(_ key: BlobKey, byteCount: Int64? = nil) {
    guard tier.mode.writes else { return }
    absences.forget(key)
    if let byteCount, !tier.takes(byteCount) { return }
    changes.add(.putFromDirectory, of: key)
  }

  /// A key was removed here.
  func didRemove(_ key: BlobKey) {
    guard tier.mode.writes else { return }
    changes.add(.remove, of: key)
  }

  func isPending(_ key: BlobKey) -> Bool { changes.isPending(key) }

  /// Removes the objects of all keys that begin so, a page of names at a time.
  ///
  /// - Throws: `RemoteError`; `CancellationError`.
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
      // What has been stored here since goes there instead: the directory is asked when the change's turn comes.
      for key in keys { changes.add(.putFromDirectory, of: key) }
      for key in keys {
        if await settled(key) == .done { removal.removed += 1 } else { removal.left += 1 }
      }
      page = found.next
    } while page != nil
    return removal
  }

  /// Whether a store waits for the engine.
  var writesThrough: Bool { tier.mode.writes && tier.writing == .through }

  /// Waits until the latest change of a key is carried out, postponed or dropped, however long it takes.
  ///
  /// Each change before it ends in its time. The caller's cancellation ends the wait.
  func ended(_ key: BlobKey) async {
    // Its only error is the caller's cancellation. The change goes on after it.
    _ = try? await changes.settled(key)
  }

  /// Waits until the latest change of a key is carried out, postponed or dropped.
  ///
  /// It waits no longer than a change may take.
  func settled(_ key: BlobKey) async -> RemoteOutcome {
    let (changes, time) = (changes, tier.deadlines.change)
    // Its errors are the end of the time and the caller's cancellation. The change goes on after either.
    let outcome = try? await requests.deadline.run(first: time, progress: time, tier.engine.name) { _ in
      try await changes.settled(key)
    }
    return outcome ?? .postponed
  }

  // MARK: - Other machines

  /// Whether any blob here needs the engine's word.
  var revalidates: Bool { confirmations != nil }

  /// Whether the engine's word about a key's blob here is too old.
  func wantsWord(of key: BlobKey) -> Bool {
    guard let confirmations, !confirmations.holds(key), absences.failure(of: key) == nil else { return false }
    // What is on its way there is younger than what is there.
    return !changes.isPending(key)
  }

  /// The engine's object is the blob here, or was fetched.
  func didConfirm(_ key: BlobKey) { confirmations?.note(key) }

  /// The header of the engine's object; nil if it has none, or does not say so in time.
  ///
  /// - Throws: `CancellationError` if the task is cancelled.
  func header(of key: BlobKey) async throws(CancellationError) -> RecordHeader? {
    guard let place = requests.place(of: key) else { return nil }
    switch try await requests.head(at: place) {
    case .found(let header): return header
    case .nothing:
      // It may have dropped it, as engines do: what lies here stays.
      confirmations?.note(key)
      return nil
    case .damaged:
      absences.note(AbsentRemotely(), of: key, for: .seconds(60))
      return nil
    case .unknown, .unkept: return nil
    }
  }

  /// Whether a blob of this size goes to the engine. Another one stays here, and the engine's word is not about it.
  func takes(_ header: RecordHeader) -> Bool { tier.takes(Int64(clamping: header.payloadSize)) }

  /// nil where each machine may produce.
  var leases: RemoteTier.Leases? { tier.mode == .readWrite ? tier.leases : nil }

  /// - Throws: `CancellationError` if the task is cancelled.
  func acquireLease(of key: BlobKey) async throws(CancellationError) -> RemoteRequests.Lease {
    guard let leases, let place = requests.place(of: key) else { return .unknown }
    return try await requests.acquireLease(at: place, for: leases.duration)
  }

  /// Gives a lease back, without a wait.
  func releaseLease(of key: BlobKey) {
    guard let place = requests.place(of: key) else { return }
    Task { [requests] in await requests.releaseLease(at: place) }
  }

  /// Begins to listen to other machines, where the tier says so.
  ///
  /// - Parameter take: is called with what another machine has changed.
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

  /// Waits a short while for the changes that wait, drops the rest, and gives the engine back.
  func close() async {
    guard !isClosed.exchange(true, ordering: .relaxed) else { return }
    listening.withLock { $0.take() }?.cancel()
    let (changes, time, engine) = (changes, tier.flushesOnCloseFor, tier.engine)
    // Its only error is the end of the time. What waits then is dropped, and each is told.
    try? await requests.deadline.run(first: time, progress: time, tier.engine.name) { _ in try await changes.drain() }
    requests.close()
    changes.close()
    requests.counts.tell()
    // An engine that does not end in time goes on alone, and the cache has no more to do with it.
    try? await requests.deadline.run(first: time, progress: time, engine.name) { _ in await engine.close() }
  }
}

/// A remote engine has nothing of a key.
struct AbsentRemotely: Error {}

/// Keys whose blobs here the engine has confirmed a short while ago.
final class Confirmations: Sendable {
  /// Some megabytes at the most; the oldest give way, and are asked for again.
  private static let most = 1 << 16

  private let times: MemoryCache<BlobKey, ContinuousClock.Instant>
  private let interval: Duration
  private let now: @Sendable () -> ContinuousClock.Instant

  /// - Parameter now: a clock that is never set.
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
