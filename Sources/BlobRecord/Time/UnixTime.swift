internal import TextFormats

/// A point in time in whole seconds since 1970-01-01T00:00:00Z, the resolution of the record format.
public struct UnixTime: Hashable, Comparable, Sendable {
  public var seconds: Int64

  public init(seconds: Int64) {
    self.seconds = seconds
  }

  public static func < (a: UnixTime, b: UnixTime) -> Bool { a.seconds < b.seconds }

  /// Returns the time `seconds` later, clamped to `Int64`, so that no time and no ttl overflows.
  public func advanced(bySeconds seconds: Int64) -> UnixTime {
    let (sum, overflow) = self.seconds.addingReportingOverflow(seconds)
    return UnixTime(seconds: overflow ? (seconds > 0 ? .max : .min) : sum)
  }
}

extension UnixTime {
  /// The time in ISO 8601, such as `2026-01-31T06:30:00Z`, for years of four digits.
  package var iso8601: String {
    let endOfYear9999: Int64 = 253_402_300_799
    guard (0...endOfYear9999).contains(seconds) else { return seconds < 0 ? "before 1970" : "after 9999" }
    let (date, second) = (CivilDate(dayNumber: seconds / 86_400), seconds % 86_400)
    func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
    let clock = "\(two(second / 3600)):\(two(second / 60 % 60)):\(two(second % 60))"
    return "\(date.year)-\(two(date.month))-\(two(date.day))T\(clock)Z"
  }

  /// Returns the distance to another time as text, such as `in 9m`, `3h ago` or `now`.
  package func relative(to now: UnixTime) -> String {
    let (difference, overflow) = seconds.subtractingReportingOverflow(now.seconds)
    guard !overflow, difference.magnitude <= Quantities.longestSeconds else { return self < now ? "long ago" : "never" }
    if difference == 0 { return "now" }
    return difference > 0 ? "in \(Quantities.span(difference))" : "\(Quantities.span(-difference)) ago"
  }
}
