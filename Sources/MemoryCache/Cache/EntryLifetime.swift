/// How long an entry of a `MemoryCache` may be served, within the cache's limits.
public enum EntryLifetime: Hashable, Sendable {
  case unlimited
  /// From when it was set; uses do not extend it. Zero or less means that it is over at once.
  case absolute(Duration)
  /// From when it was last used or set. Zero or less means that it is over at once.
  case sliding(Duration)
  /// Before this point of the cache's clock, and not from then on.
  case until(CacheInstant)

  /// When an entry that is set or used now expires, in nanoseconds; `Int64.max` for never.
  @inlinable
  func deadline(from now: Int64) -> Int64 {
    switch self {
    case .unlimited: .max
    case .absolute(let duration), .sliding(let duration): Self.end(now, duration.saturatedNanoseconds)
    case .until(let instant): instant.nanoseconds
    }
  }

  /// By how many nanoseconds a use extends the lifetime; 0 where it does not.
  @inlinable
  var slidingNanoseconds: Int64 {
    if case .sliding(let duration) = self { max(duration.saturatedNanoseconds, 0) } else { 0 }
  }

  @inlinable
  static func end(_ now: Int64, _ nanoseconds: Int64) -> Int64 {
    let (sum, overflow) = now.addingReportingOverflow(nanoseconds)
    return overflow ? (nanoseconds > 0 ? .max : .min) : sum
  }
}
