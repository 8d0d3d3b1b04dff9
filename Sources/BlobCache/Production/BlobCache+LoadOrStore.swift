public import BlobRecord
public import BlobStore
internal import Synchronization

extension BlobCache {
  /// The live blob stored under a key, or the one that `produce` makes, which is stored.
  ///
  /// One producer runs for a key, and all tasks that ask for it wait. If it throws, all of them get the error, and
  /// nothing is stored. A cancelled task stops waiting; when none is left, the producer is cancelled. A damaged record
  /// is produced anew. If the blob cannot be stored, the store's error is thrown, unless the options say that it is
  /// answered all the same.
  ///
  /// The blob is stored only if no process has stored or removed the key since the production began. Else the earlier
  /// callers get it, and later ones begin anew.
  ///
  /// The producer runs in a task of its own, with the task-local values of the first caller and the highest priority of
  /// all. It must not ask for its own key, nor for one whose producer waits for it: that is `recursiveProduction`. This
  /// holds also in tasks that the producer begins, so detach tasks that it does not wait for. A detached task that it
  /// does wait for must not ask for its key: the two would wait for each other without end.
  ///
  /// - Throws: what `produce` throws; `recursiveProduction`; as `load` and `store`; `CancellationError`.
  public func load(
    _ key: BlobKey, options: ProductionOptions = ProductionOptions(),
    orStore produce: @escaping @Sendable () async throws -> Data
  ) async throws -> Blob {
    try await load(
      ProductionRequest(key: key, options: options, isAcceptable: { _ in true }) { Produced(try await produce()) })
  }

  /// The live blob stored under a key, or the one that `produce` makes, which is stored as it says.
  ///
  /// As `load(_:options:orStore:)`, for producers that learn from their source how long a blob lives, and whether it may be
  /// stored at all.
  ///
  /// - Throws: as `load(_:options:orStore:)`; `invalidTimeToLive` for a time to live of zero or less.
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
      // A production under way may replace the blob already.
      if engine.isAged(blob, request.options), !engine.productions.isUnderWay(name) { engine.refresh(request) }
      return blob
    }
    if let blob = answer(engine.findResident(key, touching: true)) { return blob }
    // A production under way has looked already. What is missing here, the production looks for once more.
    let found =
      engine.productions.isUnderWay(name) ? nil : engine.loadWithoutWaiting(key, touching: true, tellsAbsence: false)
    if found != nil { await engine.giveWay() }
    if let blob = answer(found) { return blob }
    let tally = LoadTally(of: key, engine.observer)
    while true {
      let answer = try await engine.productions.answer(to: name) { production in
        // A request that looks again is one use.
        try await engine.find(request, in: production, tally, touching: found == nil)
      }
      if !answer.isOwn { tally.tell(answer, isAcceptable: request.isAcceptable) }
      let blob = try answer.result.get()
      // The blob of another caller's producer may not be acceptable here.
      if answer.isOwn || request.isAcceptable(blob) { return blob }
    }
  }
}

/// Tells of a load that may produce, once: a hit or a miss.
///
/// Such a load may look more than once.
final class LoadTally: Sendable {
  private let key: BlobKey
  private let observer: Observer
  private let isTold = Atomic(false)

  init(of key: BlobKey, _ observer: Observer) {
    self.key = key
    self.observer = observer
  }

  /// Counts the load's own look: a hit if the blob is acceptable, else a miss.
  func tell(_ finding: LookupResult, isAcceptable: Bool) {
    tell(isAcceptable ? finding.event(for: key) : finding.miss(for: key))
  }

  /// Tells of a production that the load has joined.
  func tell(_ answer: ProductionTable.Answer, isAcceptable: (Blob) -> Bool) {
    switch (answer.production.look, answer.result) {
    case (.hit(let tier), .success(let blob)) where isAcceptable(blob):
      tell(CacheEvent(.hit(tier), key, byteCount: blob.payload.count))
    // The disk could not be read, which was told.
    case (nil, _): break
    default: tell(CacheEvent(.miss, key))
    }
  }

  private func tell(_ event: @autoclosure () -> CacheEvent) {
    guard !isTold.exchange(true, ordering: .relaxed) else { return }
    observer.tell(event())
  }
}
