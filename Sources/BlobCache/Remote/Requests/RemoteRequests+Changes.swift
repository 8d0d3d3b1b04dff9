internal import BlobStore
internal import Synchronization

/// Stores and removals.
extension RemoteRequests {
  func put(_ record: RemoteRecord, of key: BlobKey) async throws(RemoteError) {
    guard let place = place(of: key) else { return }
    try await change(key, .store, byteCount: record.byteCount) { try await $0.put(record, as: place.name) }
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
    try await change(key, .removal, byteCount: 0) { try await $0.remove(place.name) }
    counts.change { $0.removals += 1 }
    announce(key, checksum: nil)
  }

  private func change(
    _ key: BlobKey, _ kind: Kind, byteCount: Int,
    _ body: @escaping @Sendable (any RemoteEngine) async throws -> Void
  ) async throws(RemoteError) {
    let breaker = breaker(for: kind)
    guard !isClosed.load(ordering: .relaxed), let ticket = breaker.admit() else {
      var error = RemoteError(.unreachable, "\(tier.engine.name) has failed, and is left alone for a while")
      error.passedOver = kind
      throw error
    }
    let (engine, times) = (tier.engine, tier.deadlines)
    let time = times.change + times.perMebibyte * Double(byteCount) / Double(1 << 20)
    do {
      try await deadline.run(first: time, progress: time, engine.name) { _ in try await body(engine) }
      counts.change { $0.requests += 1 }
      noteSuccess(breaker)
    } catch {
      guard !Task.isCancelled else {
        breaker.leave(ticket)
        throw RemoteError(.failed, "the cache was closed before \(engine.name) had \(key)", cause: error)
      }
      throw note(error, of: key, kind, ticket)
    }
  }
}
