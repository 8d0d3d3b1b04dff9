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
