import ArgumentParser

/// A measured operation. The cases are in the order of a round, in which each operation prepares the next one.
enum Operation: String, CaseIterable, ExpressibleByArgument {
  /// Stores a new key with a ttl of 0.
  case store
  /// Touches a record with a ttl of 0 under an advancing clock, so that each touch writes the header.
  case touch
  /// Loads a record and touches it; the raw side loads it and rewrites the header.
  case loadTouching
  case lock, unlock
  /// Replaces an existing record by one with a nonzero ttl.
  case replace
  /// Loads a record that needs no touch.
  case load
  case loadAbsent
  case remove
  /// Reads the headers of all records of a directory.
  case enumerate
  /// Opens a store and loads one record, in a directory with very many records and in one with few.
  case open
  /// Collects a directory without removing anything, and examines every record.
  case collect
  /// Collects a directory that has marks of an earlier collection.
  case collectKnown
  /// Measures the memory of a collection, in MiB instead of microseconds.
  case collectMemory
  /// Evicts a tenth of the records. The raw side takes two walks, and 1.3 unlinks for each victim.
  case evict
  /// Loads records while another process collects: the median, and the slowest of a hundred.
  case loadMedian, loadTail
  /// Operations of `--recycling`. A cold store has a new key and no dead file to overwrite. Replacement and removal
  /// are measured with dead files in the bin. A churn stores new keys at the size limit, so each store evicts a
  /// record; the raw side unlinks a file for each store.
  case storeCold, replaceRecycled, removeRecycled, churn

  static let lifecycle: [Operation] = [
    .store, .touch, .loadTouching, .lock, .unlock, .replace, .load, .loadAbsent, .remove,
  ]

  static let ofCollections: [Operation] = [
    .collect, .collectKnown, .collectMemory, .evict, .loadMedian, .loadTail,
  ]

  static let ofRecycling: [Operation] = [.storeCold, .replaceRecycled, .removeRecycled, .churn]

  /// A Boolean value that indicates whether later operations of a round depend on it, so that it cannot be skipped.
  var changesWhatIsThere: Bool { self == .store || self == .replace || self == .remove }

  /// A Boolean value that indicates whether the operation processes the whole payload, so that a checksum costs time.
  var movesPayload: Bool { [.store, .replace, .load, .loadTouching].contains(self) }
}
