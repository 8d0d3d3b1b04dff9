internal import BlobRecord
internal import BlobStore
internal import Logging

extension CacheEngine {
  /// Whether a blob is old enough to be produced anew.
  func isAged(_ blob: Blob, _ options: ProductionOptions) -> Bool {
    guard let age = options.refreshesAfter?.wholeSeconds, blob.header.ttl > 0 else { return false }
    let spread = (0...1).contains(options.refreshSpread) ? options.refreshSpread : 0
    let seconds = age - Int64(Double(age) * spread * refreshLot(of: blob.key))
    return store.configuration.now() >= blob.header.lastUpdate.advanced(bySeconds: seconds)
  }

  /// A number from 0 to 1 that this cache draws for a key. Other processes and machines draw others.
  private func refreshLot(of key: BlobKey) -> Double {
    var hasher = Hasher()
    hasher.combine(refreshSeed)
    hasher.combine(key)
    return Double(UInt64(bitPattern: Int64(hasher.finalize())) >> 11) / Double(1 << 53)
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
        if let blob = try await self.lookUp(key, touching: false).blob {
          if isDone(blob) { return blob }
          // Another machine may have been first.
          if let newer = try await self.newerBlob(key, in: production), isDone(newer) { return newer }
        }
        return try await self.produce(request, .aged, in: production, isDone: isDone)
      } catch {
        // The caller has its answer. The stored blob stays, and the next call tries again.
        self.store.configuration.logger.debug("not refreshed: \(key): \(error)")
        throw error
      }
    }
  }
}
