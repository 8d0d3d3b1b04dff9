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
