import ArgumentParser

/// A measured kind of work. The cases are in the order of a round, in which each one prepares the next one.
enum Work: String, CaseIterable, ExpressibleByArgument {
  /// Stores a new key, with a ttl of 0 if the peer supports it.
  case store
  /// Loads an entry and must record its use.
  case loadTouching
  /// Replaces an existing key, with a nonzero ttl if the peer supports it.
  case replace
  /// Loads an entry without recording a use. The load ends with the payload in memory that the caller owns.
  case load
  /// Loads a missing key.
  case miss
  case remove
  /// Removes the oldest entry and stores a new one, as a cache at its limit does.
  case churn
  /// Opens a closed cache with many entries, and loads one of them.
  case open
  /// Bytes on disk of a filled and closed cache, per byte of payload.
  case disk

  /// The work of a round on the same keys, from their store to their removal.
  static let lifecycle: [Work] = [.store, .loadTouching, .replace, .load, .miss, .remove]

  /// A Boolean value that indicates whether later work of a round depends on this work, so that it cannot be skipped.
  var changesWhatIsThere: Bool { self == .store || self == .replace || self == .remove }

  var writes: Bool { changesWhatIsThere || self == .loadTouching || self == .churn }
}
