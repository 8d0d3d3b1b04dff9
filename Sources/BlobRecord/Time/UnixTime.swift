/// A moment in whole seconds since 1970-01-01T00:00:00Z, the resolution of the record format.
public struct UnixTime: Hashable, Comparable, Sendable {
  public var seconds: Int64

  public init(seconds: Int64) {
    self.seconds = seconds
  }

  public static func < (a: UnixTime, b: UnixTime) -> Bool { a.seconds < b.seconds }

  /// The moment `seconds` later, held at the ends of `Int64`.
  ///
  /// So no time and no ttl overflows.
  public func advanced(bySeconds seconds: Int64) -> UnixTime {
    let (sum, overflow) = self.seconds.addingReportingOverflow(seconds)
    return UnixTime(seconds: overflow ? (seconds > 0 ? .max : .min) : sum)
  }
}
