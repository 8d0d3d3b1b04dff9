public import BlobRecord
public import BlobStore

/// Something that a cache has done, or found.
public struct CacheEvent: Sendable {
  public enum Kind: Sendable {
    /// A blob was stored on disk, or staged to be. Each store is told once.
    case stored(staged: Bool)
    /// A blob that was staged is on disk.
    case written
    /// A load was answered from this tier. Each load is one hit or one miss, or throws.
    case hit(Tier)
    /// A load found nothing that is live, or nothing that will do.
    case miss
    /// A blob past its time left this tier.
    ///
    /// It left memory when it was asked for, or disk by a collection.
    case expired(Tier)
    /// A blob left this tier to make room.
    ///
    /// It left memory and is still on disk, or it left disk by a collection or a trim.
    case evicted(Tier)
    /// A record was removed by its key.
    case removed
    /// What lies beside a blob's payload was replaced; the bytes are its.
    case extendedDataReplaced
    /// A record was found damaged, or its blob did not decode to a value.
    ///
    /// A load found it, or a collection removed it for that.
    case damaged(any Error)
    /// A producer made a blob that was missing, or made it anew.
    case produced
    /// An expired blob was answered because its producer failed, as `ProductionOptions.staleIfError` allows.
    case stale(any Error)
    /// A staged blob could not be written, or a produced one not stored.
    ///
    /// The produced one was answered all the same.
    case writeFailed(any Error)
    /// A blob came from the remote tier, and lies on disk.
    case fetched
    /// A blob has reached the remote tier.
    case uploaded
    /// A request to the remote tier failed: a `RemoteError`. What asked for it goes on without.
    case remoteFailed(any Error)
    /// A store or a removal does not reach the remote tier.
    ///
    /// The engine failed, too many waited, or the cache was closed.
    case remoteChangeDropped
    /// A collection or trim has ended, after an event for each record that it removed.
    ///
    /// It was asked for, is on schedule, or was begun by a store to keep a limit.
    case collected(BlobStore.CollectionReport)
  }

  /// Where a blob was found.
  public enum Tier: String, CaseIterable, Sendable {
    case memory
    /// Staged, and not on disk yet.
    case staged
    case disk
    /// The tier that other machines share.
    case remote
  }

  public let kind: Kind
  /// nil for an event about several keys, or if neither the file's name nor the record tells it.
  public let key: BlobKey?
  /// Bytes of the payload, or of the new extended data; 0 for other events.
  public let byteCount: Int
  /// How long it took, without the time in the queue; zero for answers from memory.
  public let duration: Duration
  /// How long it waited for a thread.
  public let queueTime: Duration

  init(
    _ kind: Kind, _ key: BlobKey?, byteCount: Int = 0, duration: Duration = .zero, queueTime: Duration = .zero
  ) {
    self.kind = kind
    self.key = key
    self.byteCount = byteCount
    self.duration = duration
    self.queueTime = queueTime
  }
}

extension CacheEvent {
  /// A collection, also one that a store has started, has removed a record.
  init(_ record: CollectedRecord) {
    let kind: Kind =
      switch record.cause {
      case .expired: .expired(.disk)
      case .evicted: .evicted(.disk)
      case .damaged(let error): .damaged(error)
      }
    self.init(kind, record.key, byteCount: Int(max(0, record.fileSize - Int64(RecordHeader.byteCount))))
  }
}

extension BlobCache {
  /// The events of the cache from now on.
  ///
  /// There may be many listeners, and each gets all events. A slow one loses the oldest events beyond 256. The stream
  /// ends when the cache is closed.
  ///
  /// Without a listener no event is made. A dashboard's counters are better served by the trait `Metrics`.
  public var events: AsyncStream<CacheEvent> { events(bufferSize: 256) }

  /// The events of the cache from now on, with another buffer.
  ///
  /// - Parameter bufferSize: events that wait for the listener at the most; at least one.
  public func events(bufferSize: Int) -> AsyncStream<CacheEvent> {
    engine.observer.events.events(bufferSize: bufferSize)
  }
}
