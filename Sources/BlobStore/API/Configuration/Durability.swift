extension BlobStore {
  /// The changes that survive a power cut after an operation, whereas all changes survive a crash of the process.
  public enum Durability: String, CaseIterable, Sendable {
    /// `full` for changes that concern locks, `none` for all others.
    ///
    /// Such changes are locking, unlocking, a store that locks a record or replaces a locked one, and the removal of
    /// a locked record. An acknowledged lock is therefore never lost, whereas all other records are only a cache.
    case automatic
    /// Nothing is guaranteed, so a record may be missing or damaged afterwards, which a load detects.
    case none
    /// The new blob is on the medium before it replaces the old one, so a power cut leaves one of the two intact.
    case barrier
    /// The file, its directory, and that directory's parent are on the medium when the operation returns.
    case full
  }
}

extension BlobStore.Durability {
  /// The durability of one operation, depending on whether it concerns a lock.
  enum Level: Comparable {
    case none, barrier, full
  }

  func level(concernsLock: Bool) -> Level {
    switch self {
    case .automatic: concernsLock ? .full : .none
    case .none: .none
    case .barrier: .barrier
    case .full: .full
    }
  }
}

extension BlobStore {
  /// The locks of a new record, depending on the record that it replaces.
  public enum LockPolicy: String, CaseIterable, Sendable {
    /// The new record has no lock.
    case none
    /// The new record has one lock, regardless of how many the old one had.
    case one
    /// The new record has the locks of the old one, or no locks if the old one is damaged.
    case keep
    /// The new record has the locks of the old one, and at least one.
    case keepOrOne
  }
}

extension BlobStore.LockPolicy {
  /// The equivalent policy for a new record that replaces no locked one.
  package var replacingNothing: Self {
    switch self {
    case .none, .keep: .none
    case .one, .keepOrOne: .one
    }
  }

  var keepsLocks: Bool { self == .keep || self == .keepOrOne }

  /// Returns the lock count of a record that replaces one with `old` locks (0 for a new key or a damaged record).
  func refCount(replacing old: UInt32) -> UInt32 {
    switch self {
    case .none: 0
    case .one: 1
    case .keep: old
    case .keepOrOne: max(old, 1)
    }
  }
}

extension BlobStore {
  /// The time from which a blob that is written in pieces is visible under its key.
  public enum Visibility: Sendable {
    /// The blob replaces the old one when it is complete.
    case afterCommit
    /// The blob replaces the old one immediately, and followers read it while it grows.
    ///
    /// Until the commit, loads fail with `recordIsStreamAndBusy`. If the writer dies or cancels, the key has no blob.
    case whileWriting
  }
}
