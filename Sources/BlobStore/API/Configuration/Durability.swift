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
