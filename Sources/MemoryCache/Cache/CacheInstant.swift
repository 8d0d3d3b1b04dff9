internal import Posix

/// A point in time of a `MemoryCache`, in nanoseconds since the origin of its clock.
public struct CacheInstant: Hashable, Sendable {
  /// The nanoseconds, clamped to 2^62 around zero (about 146 years), so that differences never overflow.
  public let nanoseconds: Int64

  @inlinable
  public init(nanoseconds: Int64) {
    self.nanoseconds = min(max(nanoseconds, -(1 << 62)), 1 << 62)
  }

  /// The time of the system's coarse monotonic clock, with a precision of some milliseconds.
  ///
  /// A read costs a few nanoseconds. On Linux, the clock stops while the machine is suspended.
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

  /// Returns the sum, clamped to the range of the type.
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
  /// The duration in nanoseconds, rounded up and clamped to `Int64`.
  @inlinable
  var saturatedNanoseconds: Int64 {
    // `components` traps if the seconds exceed 64 bits.
    if self >= .seconds(Int64.max / 1_000_000_000) { return .max }
    if self <= .seconds(Int64.min / 1_000_000_000) { return .min }
    let (seconds, attoseconds) = components
    let (whole, rest) = (attoseconds / 1_000_000_000, attoseconds % 1_000_000_000)
    return seconds * 1_000_000_000 + whole + (rest > 0 ? 1 : 0)
  }
}

/// The time for which an entry of a `MemoryCache` may be returned, within the cache's limits.
public enum EntryLifetime: Hashable, Sendable {
  case unlimited
  /// The time since the entry was set, regardless of uses. Zero or a negative duration has already passed.
  case absolute(Duration)
  /// The time since the entry was last used or set. Zero or a negative duration has already passed.
  case sliding(Duration)
  /// The point in time of the cache's clock at which the entry expires.
  case until(CacheInstant)

  /// Returns when an entry that is set or used now expires, in nanoseconds; `Int64.max` means never.
  @inlinable
  func deadline(from now: Int64) -> Int64 {
    switch self {
    case .unlimited: .max
    case .absolute(let duration), .sliding(let duration): Self.end(now, duration.saturatedNanoseconds)
    case .until(let instant): instant.nanoseconds
    }
  }

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
