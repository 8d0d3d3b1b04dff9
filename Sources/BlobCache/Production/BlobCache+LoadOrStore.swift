public import BlobRecord
public import BlobStore

#if canImport(FoundationEssentials)
  public import FoundationEssentials
#else
  public import Foundation
#endif

extension BlobCache {
  /// The blob stored under a key or, if there is none that is live, what `produce` makes, which is stored.
  ///
  /// However many tasks ask for a key, one producer runs for it; the others wait for what it makes. A task that is
  /// cancelled stops waiting, and the producer is cancelled when nobody waits any more. A damaged record is produced
  /// anew. What `produce` throws goes to all who wait, and nothing is stored. What cannot be stored is thrown away, and the
  /// store's error thrown, unless the options say that it is answered all the same.
  ///
  /// What is produced is stored only if the key was neither stored nor removed since the production began, in whatever
  /// process; else it is answered to those who asked before, and not stored. Who asks after such a change begins anew.
  ///
  /// The producer runs in a task of its own, with the priority and the task-local values of the first who asked; a higher
  /// priority of somebody who waits is its own. It must not ask for its own key, nor for one whose producer waits for it:
  /// that is `recursiveProduction`, also in tasks that the producer begins. Those that it does not wait for are to be
  /// detached. A detached task that it does wait for must not ask for its key: it would wait for itself, without end.
  ///
  /// - Throws: what `produce` throws; `recursiveProduction`; as `load` and `store`; `CancellationError`.
  public func load(
    _ key: BlobKey, options: ProductionOptions = ProductionOptions(),
    orStore produce: @escaping @Sendable () async throws -> Data
  ) async throws -> Blob {
    try await load(ProductionRequest(key: key, options: options, isAcceptable: { _ in true }, produce: produce))
  }

  func load(_ request: ProductionRequest) async throws -> Blob {
    let engine = try openEngine()
    let key = request.key
    if let found = engine.findResident(key, touching: true), let blob = found.blob, request.isAcceptable(blob) {
      engine.observer.tell(found.event(for: key))
      // Who is at it already may be producing what takes the blob's place.
      if engine.isAged(blob, request.options), !engine.flights.isUnderWay(Flight.Name(key: key, kind: .load)) {
        engine.refresh(request)
      }
      return blob
    }
    let tally = LoadTally(of: key, engine.observer)
    while true {
      let landing = try await engine.flights.landing(Flight.Name(key: key, kind: .load)) { flight in
        try await engine.find(request, in: flight, tally)
      }
      if !landing.isOwn { tally.tell(landing, isAcceptable: request.isAcceptable) }
      let blob = try landing.result.get()
      // Somebody else's producer may have made what will not do here.
      if landing.isOwn || request.isAcceptable(blob) { return blob }
    }
  }
}
