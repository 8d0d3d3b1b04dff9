public import BlobRecord
public import BlobStore

/// An event in a cache.
public struct CacheEvent: Sendable {
  public enum Kind: Sendable {
    /// A blob was stored on disk or staged. Each store is reported once.
    case stored(staged: Bool)
    /// A staged blob was written to disk.
    case written
    /// A load was answered from this tier. Each load reports one hit or one miss, or throws.
    case hit(Tier)
    /// A load found no live blob, or none that is usable.
    case miss
    /// An expired blob was removed from this tier: from memory by a lookup, or from disk by a collection.
    case expired(Tier)
    /// A blob was removed to free space: from memory, but not from disk, or from disk by a collection or a trim.
    case evicted(Tier)
    /// A record was removed by its key.
    case removed
    /// The extended data of a blob were replaced; `byteCount` is the size of the new data.
    case extendedDataReplaced
    /// A load found a damaged record or a blob that could not be decoded, or a collection removed a damaged record.
    case damaged(any Error)
    /// A producer created a missing blob, or created an old blob again.
    case produced
    /// An expired blob was returned because its producer failed, as `ProductionOptions.staleIfError` allows.
    case stale(any Error)
    /// A staged blob could not be written, or a produced one, which was still returned, could not be stored.
    case writeFailed(any Error)
    /// A blob was fetched from the remote tier and stored on disk.
    case fetched
    /// A blob was uploaded to the remote tier.
    case uploaded
    /// A request to the remote tier failed with a `RemoteError`; the operation continues without the tier.
    case remoteFailed(any Error)
    /// A change was not sent to the remote tier: the engine failed, the queue was full or the cache was closed.
    case remoteChangeDropped
    /// A requested, scheduled or automatic collection or trim has ended, after an event for each removed record.
    case collected(BlobStore.CollectionReport)
  }

  /// The tier of a blob.
  public enum Tier: String, CaseIterable, Sendable {
    case memory
    /// Staged, and not on disk yet.
    case staged
    case disk
    /// The tier that machines share.
    case remote
  }

  public let kind: Kind
  /// The key, or `nil` for an event about several keys, or if neither the file name nor the record contains the key.
  public let key: BlobKey?
  /// The size of the payload or of the new extended data in bytes; 0 for other events.
  public let byteCount: Int
  /// The duration without the time in the queue; zero for answers from memory.
  public let duration: Duration
  /// The time that the operation waited for a thread.
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
  /// An asynchronous stream of the cache's events from now on.
  ///
  /// Each of any number of listeners receives all events, but a slow one loses the oldest beyond 256. The stream ends
  /// when the cache is closed. Without listeners, no events are created. For dashboards, prefer the trait `Metrics`.
  public var events: AsyncStream<CacheEvent> { events(bufferSize: 256) }

  /// Returns an asynchronous stream of the cache's events from now on.
  ///
  /// - Parameter bufferSize: The maximum number of buffered events, at least one.
  /// - Returns: The stream, which ends when the cache is closed.
  public func events(bufferSize: Int) -> AsyncStream<CacheEvent> {
    engine.observer.events.events(bufferSize: bufferSize)
  }
}
