extension BlobStore {
  /// The changes that survive a power cut once an operation has returned. At every level, all of them survive a crash
  /// of the process.
  public enum Durability: String, CaseIterable, Sendable {
    /// `full` for changes that concern locks, `none` for the rest.
    ///
    /// Such changes are lock, unlock, a store that locks or replaces a locked record, and the removal of one. So an
    /// acknowledged lock is never lost. The rest is only a cache.
    case automatic
    /// Nothing is promised: a record may be missing or damaged afterwards, which a load notices.
    case none
    /// The new blob is on the medium before it takes the old one's place.
    ///
    /// So the old blob is never lost for the new.
    case barrier
    /// The file, its directory and that directory's parent are on the medium on return.
    case full
  }
}

extension BlobStore.Durability {
  /// The durability of one operation, once it is known whether it concerns a lock.
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
  /// The locks of a record that a store writes: those of the record that it replaces, or one of its own.
  public enum LockPolicy: String, CaseIterable, Sendable {
    /// The new record has no lock.
    case none
    /// The new record has one lock, however many the old one had.
    case one
    /// The new record has the locks of the old one. A damaged old record has none.
    case keep
    /// The new record has the locks of the old one, and at least one.
    case keepOrOne
  }
}

extension BlobStore.LockPolicy {
  /// The equal policy for a new record that replaces no locked one.
  package var replacingNothing: Self {
    switch self {
    case .none, .keep: .none
    case .one, .keepOrOne: .one
    }
  }

  var keepsLocks: Bool { self == .keep || self == .keepOrOne }

  /// The locks of a record that takes the place of one with `old` locks; `old` is 0 for a new key or a damaged record.
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
  /// From when on a blob that is written in pieces is seen under its key.
  public enum Visibility: Sendable {
    /// The blob takes the place of the old one once it is whole.
    case afterCommit
    /// The blob takes the place of the old one at once, and followers read it while it grows.
    ///
    /// Until the commit, loads answer `recordIsStreamAndBusy`. A writer that dies or gives up leaves the key without a
    /// blob.
    case whileWriting
  }
}
