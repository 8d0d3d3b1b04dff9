/// The work of a `MemoryCache` since it was made. Two of them subtract, to see a span of time.
public struct MemoryCacheStatistics: Hashable, Sendable {
  /// Values found by `value(forKey:)` and the subscript.
  public var hits: Int
  /// Values not found by them, expired ones among them.
  public var misses: Int
  /// Values set and kept, in the place of another or not.
  public var insertions: Int
  /// Values set and not kept: too dear, or over already.
  public var rejections: Int
  /// Entries that left, by cause.
  public var explicitRemovals: Int
  public var replacements: Int
  public var expirations: Int
  public var evictions: Int
  public var clearings: Int

  @inlinable
  public init() {
    hits = 0
    misses = 0
    insertions = 0
    rejections = 0
    explicitRemovals = 0
    replacements = 0
    expirations = 0
    evictions = 0
    clearings = 0
  }

  /// Hits of all that was asked for; nil if nothing was.
  public var hitRatio: Double? {
    let requests = hits + misses
    return requests == 0 ? nil : Double(hits) / Double(requests)
  }

  public static func - (a: Self, b: Self) -> Self { a.combined(b, -) }
  public static func + (a: Self, b: Self) -> Self { a.combined(b, +) }

  private func combined(_ other: Self, _ operation: (Int, Int) -> Int) -> Self {
    var result = self
    result.hits = operation(hits, other.hits)
    result.misses = operation(misses, other.misses)
    result.insertions = operation(insertions, other.insertions)
    result.rejections = operation(rejections, other.rejections)
    result.explicitRemovals = operation(explicitRemovals, other.explicitRemovals)
    result.replacements = operation(replacements, other.replacements)
    result.expirations = operation(expirations, other.expirations)
    result.evictions = operation(evictions, other.evictions)
    result.clearings = operation(clearings, other.clearings)
    return result
  }

  @inlinable
  mutating func countRemoval(_ cause: RemovalCause, _ number: Int = 1) {
    switch cause {
    case .explicit: explicitRemovals += number
    case .replaced: replacements += number
    case .expired: expirations += number
    case .evicted: evictions += number
    case .cleared: clearings += number
    }
  }
}
