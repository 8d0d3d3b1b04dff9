internal import BlobRecord
internal import BlobStore
internal import Logging

extension CacheEngine {
  /// Whether a blob is old enough to be produced anew.
  func isAged(_ blob: Blob, _ options: ProductionOptions) -> Bool {
    guard let age = options.refreshesAfter?.wholeSeconds, blob.header.ttl > 0 else { return false }
    return store.configuration.now() >= blob.header.lastUpdate.advanced(bySeconds: age)
  }

  /// Produces a live but old blob anew, without a waiting caller.
  ///
  /// It does nothing if that is under way.
  func refresh(_ request: ProductionRequest) {
    let key = request.key
    guard failures.failure(of: key) == nil else { return }
    let isDone = { @Sendable (blob: Blob) in !self.isAged(blob, request.options) && request.isAcceptable(blob) }
    productions.refresh(key) { production in
      do {
        if let blob = try await self.look(key, touching: false).blob, isDone(blob) { return blob }
        return try await self.produce(request, .aged, in: production, isDone: isDone)
      } catch {
        // The caller has its answer. The stored blob stays, and the next call tries again.
        self.store.configuration.logger.debug("not refreshed: \(key): \(error)")
        throw error
      }
    }
  }
}
