public import BlobRecord
public import BlobStore
internal import Synchronization

extension BlobCache {
  /// Loads the live blob of a key, or produces and stores it.
  ///
  /// Concurrent requests for a key are coalesced: one producer runs, and all tasks wait for it. If it throws, all of
  /// them get the error, and nothing is stored. A cancelled task stops waiting, and the producer is cancelled when
  /// the last task has stopped. A damaged record is produced again. If the blob cannot be stored, the store's error
  /// is thrown, unless `answersUnstored` is set.
  ///
  /// The blob is stored only if no process has stored or removed the key since the production began. Otherwise, waiting
  /// callers get the blob, which is not stored, and later callers begin a new production.
  ///
  /// The producer runs in a separate task, with the task-local values of the first caller and the highest priority of
  /// all. It must not request its own key, nor a key whose producer waits for it, which throws `recursiveProduction`.
  /// This also applies to tasks that the producer begins, so detach tasks that it does not wait for. A detached task
  /// that it does wait for must not request its key, because both would wait for each other forever.
  ///
  /// - Throws: The errors of `produce`; `recursiveProduction`; the errors of `load` and `store`; `CancellationError`.
  public func load(
    _ key: BlobKey, options: ProductionOptions = ProductionOptions(),
    orStore produce: @escaping @Sendable () async throws -> Data
  ) async throws -> Blob {
    try await load(
      ProductionRequest(key: key, options: options, isAcceptable: { _ in true }) { Produced(try await produce()) })
  }

  /// Loads the live blob of a key, or produces it and stores it as the producer specifies.
  ///
  /// It is `load(_:options:orStore:)` for sources that specify how long a blob lives, and whether it may be stored.
  ///
  /// - Throws: The errors of `load(_:options:orStore:)`; `invalidTimeToLive` for a time to live of zero or less.
  @_disfavoredOverload
  public func load(
    _ key: BlobKey, options: ProductionOptions = ProductionOptions(),
    orStore produce: @escaping @Sendable () async throws -> Produced
  ) async throws -> Blob {
    try await load(ProductionRequest(key: key, options: options, isAcceptable: { _ in true }, produce: produce))
  }

  func load(_ request: ProductionRequest) async throws -> Blob {
    let engine = try openEngine()
    let key = request.key
    if engine.revalidates, let blob = try await engine.newer(key, isAcceptable: request.isAcceptable) { return blob }
    let name = Production.Name(key: key, kind: .load)
    func answer(_ found: LookupResult?) -> Blob? {
      guard let found, let blob = found.blob, request.isAcceptable(blob) else { return nil }
      engine.observer.tell(found.event(for: key))
      // A production in progress may already replace the blob.
      if engine.isAged(blob, request.options), !engine.productions.isUnderWay(name) { engine.refresh(request) }
      return blob
    }
    if let blob = answer(engine.findResident(key, touching: true)) { return blob }
    // A production in progress has already looked up the key. A new production repeats the lookup of a missing key.
    let found =
      engine.productions.isUnderWay(name) ? nil : engine.loadWithoutWaiting(key, touching: true, tellsAbsence: false)
    if found != nil { await engine.giveWay() }
    if let blob = answer(found) { return blob }
    let tally = LoadTally(of: key, engine.observer)
    while true {
      let answer = try await engine.productions.answer(to: name) { production in
        // A second lookup of one request does not count as another use.
        try await engine.find(request, in: production, tally, touching: found == nil)
      }
      if !answer.isOwn { tally.tell(answer, isAcceptable: request.isAcceptable) }
      let blob = try answer.result.get()
      // Another caller's producer may produce a blob that is not acceptable here.
      if answer.isOwn || request.isAcceptable(blob) { return blob }
    }
  }
}

/// Reports one hit or miss for a load that may produce, even if it looks up the key more than once.
final class LoadTally: Sendable {
  private let key: BlobKey
  private let observer: Observer
  private let isTold = Atomic(false)

  init(of key: BlobKey, _ observer: Observer) {
    self.key = key
    self.observer = observer
  }

  func tell(_ finding: LookupResult, isAcceptable: Bool) {
    tell(isAcceptable ? finding.event(for: key) : finding.miss(for: key))
  }

  func tell(_ answer: ProductionTable.Answer, isAcceptable: (Blob) -> Bool) {
    switch (answer.production.firstLookup, answer.result) {
    case (.hit(let tier), .success(let blob)) where isAcceptable(blob):
      tell(CacheEvent(.hit(tier), key, byteCount: blob.payload.count))
    // A failed read of the disk was already reported.
    case (nil, _): break
    default: tell(CacheEvent(.miss, key))
    }
  }

  private func tell(_ event: @autoclosure () -> CacheEvent) {
    guard !isTold.exchange(true, ordering: .relaxed) else { return }
    observer.tell(event())
  }
}
