import ArgumentParser

/// What is measured, in the order in which a round does it: each operation leaves what the next one needs.
enum Operation: String, CaseIterable, ExpressibleByArgument {
  /// A key that is new, with ttl 0.
  case store
  /// Ttl 0 and a clock that has moved: each touch writes the header.
  case touch
  /// A load that has to touch; raw, a load and a rewritten header.
  case loadTouching
  case lock, unlock
  /// A key that is there; it gets a ttl of its own.
  case replace
  /// A load that has nothing to touch.
  case load
  case loadAbsent
  case remove
  /// The headers of all records of a directory.
  case enumerate
  /// A new store on a directory, and its first load: with very many records, against few.
  case open
  /// A collection that finds nothing to do, and looks at every record.
  case collect
  /// A collection that finds marks of an earlier one.
  case collectKnown
  /// The memory of a collection: MiB, not microseconds.
  case collectMemory
  /// A collection that evicts a tenth; raw, two walks, and 1.3 unlinks for each victim.
  case evict
  /// Loads while another process collects; their median, and the slowest of a hundred.
  case loadMedian, loadTail
  /// With `--recycling`. A cold store has a new key and nothing to overwrite. The replacement and the removal are
  /// measured where dead files are kept. A churn stores new keys at the size limit, and each store evicts a record;
  /// raw, it is an unlink for each.
  case storeCold, replaceRecycled, removeRecycled, churn

  static let lifecycle: [Operation] = [
    .store, .touch, .loadTouching, .lock, .unlock, .replace, .load, .loadAbsent, .remove,
  ]

  static let ofCollections: [Operation] = [
    .collect, .collectKnown, .collectMemory, .evict, .loadMedian, .loadTail,
  ]

  static let ofRecycling: [Operation] = [.storeCold, .replaceRecycled, .removeRecycled, .churn]

  /// Whether later operations of a round need it, so that it cannot be left out.
  var changesWhatIsThere: Bool { self == .store || self == .replace || self == .remove }

  /// Whether it has to do with all of the payload, so that a checksum costs something.
  var movesPayload: Bool { [.store, .replace, .load, .loadTouching].contains(self) }
}
