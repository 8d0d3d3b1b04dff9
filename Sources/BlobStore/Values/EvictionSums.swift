/// The cause of an eviction.
enum EvictionCause: Int, CaseIterable {
  case sizeLimit, countLimit
  /// The volume has too little room left.
  case freeSpace
  /// A trim's goal.
  case trim
}

/// The evictions of a collection, by cause, and the age of the evicted records.
struct EvictionSums {
  /// The cause of the next evictions.
  var cause = EvictionCause.trim
  /// In the order of the causes.
  private(set) var counts = [Int64](repeating: 0, count: EvictionCause.allCases.count)
  /// Seconds since the last update, of all whose time is known.
  private(set) var age: Int64 = 0
  private(set) var aged: Int64 = 0

  mutating func add() { counts[cause.rawValue] += 1 }

  mutating func add(age seconds: Int64) {
    age.saturatingAdd(max(0, seconds))
    aged += 1
  }
}
