internal import BlobRecord
internal import BlobStore

extension CacheEngine {
  /// Opens a record on disk that may still be written. Blocks.
  func openFollower(for key: BlobKey, timeout: Duration, touching: Bool, queueTime: Duration) throws -> BlobFollower? {
    let stopwatch = observer.stopwatch()
    writeStaged(key)
    do {
      let follower = try store.openFollower(for: key, timeout: timeout, touching: touching)
      observer.tell(
        CacheEvent(
          follower == nil ? .miss : .hit(.disk), key, byteCount: Int(clamping: follower?.byteCount ?? 0),
          duration: stopwatch.elapsed, queueTime: queueTime))
      return follower
    } catch {
      if error.code == .damaged {
        observer.tell(CacheEvent(.damaged(error), key, duration: stopwatch.elapsed, queueTime: queueTime))
      }
      throw error
    }
  }

  /// Opens a reader of a key's blob, which is produced if the key has neither a blob nor a writer.
  func stream(
    _ key: BlobKey, _ options: StreamOptions, _ produce: @escaping @Sendable (StreamProducer) async throws -> Void
  ) async throws -> CacheFollower {
    // The production whose blob could be read before the last lookup.
    var opened: StreamProduction?
    var hasAsked = remote == nil
    while true {
      if let follower = try await follower(of: key, options) { return follower }
      if !hasAsked {
        hasAsked = true
        try await fetchFile(key)
        continue
      }
      let (production, beginner) = streams.production(of: key, options)
      guard let beginner else {
        if production === opened {
          // The production's blob was removed or replaced, or is about to be. Its readers keep the blob.
          streams.withdraw(production)
        } else {
          await production.opening.wait()
          opened = production
        }
        try Task.checkCancellation()
        continue
      }
      do {
        return try await begin(beginner, produce)
      } catch {
        streams.end(production, .failure(error))
        streams.leave(beginner)
        throw error
      }
    }
  }

  /// Returns a reader, or `nil` if the blob is missing, or is damaged and may be replaced.
  private func follower(of key: BlobKey, _ options: StreamOptions) async throws -> CacheFollower? {
    // The table is read before the disk, because a production that ends in between has stored its blob.
    let production = streams.production(of: key)
    let found: BlobFollower?
    do {
      found = try await lanes.reads.run { queueTime in
        try self.openFollower(for: key, timeout: options.timeout, touching: true, queueTime: queueTime)
      }
    } catch let error as BlobStoreError where error.recordError?.mayBeReplaced ?? false {
      return nil
    }
    guard let found else { return nil }
    // A complete blob is from another writer, or no longer needs its producer.
    guard let production, found.header == nil else { return CacheFollower(self, found, nil) }
    if let reader = streams.join(production) { return CacheFollower(self, found, reader) }
    _ = try await streams.failure(of: production)
    return try await follower(of: key, options)
  }

  private func begin(
    _ beginner: StreamTable.Reader, _ produce: @escaping @Sendable (StreamProducer) async throws -> Void
  ) async throws -> CacheFollower {
    let (key, options) = (beginner.production.key, beginner.production.options)
    guard options.acrossProcesses else { return try await start(beginner, produce) }
    return try await inTurn(of: key, waitingAtMost: options.waitsForOthers) {
      guard let found = try await lookUpAgain(for: key, options) else { return nil }
      streams.end(beginner.production, .success(()))
      streams.leave(beginner)
      return CacheFollower(self, found, nil)
    } orProduce: {
      try await start(beginner, produce)
    }
  }

  private func lookUpAgain(for key: BlobKey, _ options: StreamOptions) async throws -> BlobFollower? {
    do {
      return try await lanes.reads.run { _ in
        try self.store.openFollower(for: key, timeout: options.timeout, touching: false)
      }
    } catch let error as BlobStoreError where error.recordError?.mayBeReplaced ?? false {
      return nil
    }
  }

  private func start(
    _ beginner: StreamTable.Reader, _ produce: @escaping @Sendable (StreamProducer) async throws -> Void
  ) async throws -> CacheFollower {
    let production = beginner.production
    let (key, options) = (production.key, production.options)
    let writer = try await lanes.writes.run { _ in
      try self.openWriter(for: key, ttl: options.ttl, locks: .keep, visibility: .whileWriting)
    }
    let found = try await lanes.reads.run { _ in
      try self.store.openFollower(for: key, timeout: options.timeout, touching: false)
    }
    guard let found else {
      throw BlobCacheError(.superseded, "the key was removed while its blob began to be written", key: key)
    }
    let follower = CacheFollower(self, found, beginner)
    let producer = StreamProducer(writer, production)
    streams.start(production) {
      do {
        try await self.withSpan(key) { try await produce(producer) }
        try Task.checkCancellation()
        try await producer.finish()
        self.streams.end(production, .success(()))
      } catch {
        await producer.giveUp()
        self.streams.end(production, .failure(error))
      }
    }
    production.opening.come()
    return follower
  }

  private func withSpan(_ key: BlobKey, _ body: () async throws -> Void) async throws {
    let stopwatch = observer.stopwatch()
    try await body()
    observer.tell(CacheEvent(.produced, key, duration: stopwatch.elapsed))
  }
}
