internal import Posix

/// A point in the time of a `MemoryCache`: nanoseconds from its clock's origin.
public struct CacheInstant: Hashable, Sendable {
  /// Held within 2^62 of zero, about 146 years, so that differences never overflow.
  public let nanoseconds: Int64

  @inlinable
  public init(nanoseconds: Int64) {
    self.nanoseconds = min(max(nanoseconds, -(1 << 62)), 1 << 62)
  }

  /// The system's coarse clock, which only goes forward.
  ///
  /// It is exact to some milliseconds, and its reading costs a few nanoseconds. On Linux it stands still while the
  /// machine is suspended.
  ///
  /// System calls: clock_gettime(2) with `CLOCK_MONOTONIC_COARSE`; on Darwin `CLOCK_MONOTONIC_RAW_APPROX`.
  public static var now: CacheInstant { CacheInstant(nanoseconds: systemNanoseconds()) }

  @usableFromInline
  static func systemNanoseconds() -> Int64 {
    SystemClock.coarseMilliseconds() &* 1_000_000
  }
}

extension CacheInstant: InstantProtocol {
  @inlinable
  public static func < (a: CacheInstant, b: CacheInstant) -> Bool { a.nanoseconds < b.nanoseconds }

  /// Held at the ends of the type where the sum lies beyond them.
  @inlinable
  public func advanced(by duration: Duration) -> CacheInstant {
    let (sum, overflow) = nanoseconds.addingReportingOverflow(duration.saturatedNanoseconds)
    return CacheInstant(nanoseconds: overflow ? (duration > .zero ? .max : .min) : sum)
  }

  @inlinable
  public func duration(to other: CacheInstant) -> Duration {
    .nanoseconds(other.nanoseconds) - .nanoseconds(nanoseconds)
  }
}

extension Duration {
  /// Nanoseconds, rounded up, held at the ends of the type.
  @inlinable
  var saturatedNanoseconds: Int64 {
    // `components` traps where the seconds are more than 64 bits hold.
    if self >= .seconds(Int64.max / 1_000_000_000) { return .max }
    if self <= .seconds(Int64.min / 1_000_000_000) { return .min }
    let (seconds, attoseconds) = components
    let (whole, rest) = (attoseconds / 1_000_000_000, attoseconds % 1_000_000_000)
    return seconds * 1_000_000_000 + whole + (rest > 0 ? 1 : 0)
  }
}

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
