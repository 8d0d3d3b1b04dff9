public import BlobRecord
public import BlobStore

/// Something that a cache has done, or found.
public struct CacheEvent: Sendable {
  public enum Kind: Sendable {
    /// A blob was stored on disk, or staged to be.
    case stored(staged: Bool)
    /// A load was answered from this tier.
    case hit(Tier)
    /// A load found nothing that is live.
    case miss
    /// A blob whose time was over left memory.
    case expired
    /// A blob left memory to make room. It is still on disk.
    case evicted
    /// A record was removed by its key.
    case removed
    /// A record was found damaged, or its blob did not decode to a value.
    case damaged(any Error)
    /// A producer made a blob that was missing, or made it anew.
    case produced
    /// A blob that was staged could not be written.
    case writeFailed(any Error)
    /// A collection of the whole directory has ended. What it removed is counted, not named.
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
  /// nil where it is about more than one.
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
