import ArgumentParser

/// What is measured, in the order in which a round does it: each leaves what the next one needs.
enum Work: String, CaseIterable, ExpressibleByArgument {
  /// A key that is new, with ttl 0 where there is such a thing.
  case store
  /// A load that has to note that the entry was used.
  case loadTouching
  /// A key that is there; with a ttl of its own, where there is such a thing.
  case replace
  /// A load that has nothing to note. It ends with the payload in memory of the caller's own.
  case load
  /// A load of a key that is not there.
  case miss
  case remove
  /// The oldest entry removed, and a new one stored: what a cache at its limit does.
  case churn
  /// A closed cache with many entries, opened, and the first load from it.
  case open
  /// Bytes that a filled and closed cache takes on disk, per byte of payload.
  case disk

  /// What a round does with the same keys, from their store to their removal.
  static let lifecycle: [Work] = [.store, .loadTouching, .replace, .load, .miss, .remove]

  /// Whether later work of a round needs it, so that it cannot be left out.
  var changesWhatIsThere: Bool { self == .store || self == .replace || self == .remove }

  var writes: Bool { changesWhatIsThere || self == .loadTouching || self == .churn }
}
