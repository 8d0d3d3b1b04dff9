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
    /// A blob whose time was over left this tier: memory, when it was asked for; or disk, by a collection.
    case expired(Tier)
    /// A blob left this tier to make room: memory, and it is still on disk; or disk, by a collection or a trim.
    case evicted(Tier)
    /// A record was removed by its key.
    case removed
    /// A record was found damaged by a load, or removed for it by a collection, or its blob did not decode to a value.
    case damaged(any Error)
    /// A producer made a blob that was missing, or made it anew.
    case produced
    /// A blob that was staged could not be written, or one that was produced could not be stored and was answered all the same.
    case writeFailed(any Error)
    /// A collection or a trim has ended, whether it was asked for, is on schedule, or was begun by a store to keep a limit.
    /// What it removed was told before, one by one.
    case collected(CollectionReport)
  }

  /// Where a blob was found.
  public enum Tier: String, CaseIterable, Sendable {
    case memory
    /// Staged, and not on disk yet.
    case staged
    case disk
  }

  public let kind: Kind
  /// nil where it is about more than one, or where the file's name does not tell it (sha256).
  public let key: BlobKey?
  /// Bytes of the payload; 0 where there is none.
  public let byteCount: Int
  /// How long it took, without the time in the queue; zero for what was answered from memory.
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
