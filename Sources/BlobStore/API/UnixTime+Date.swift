public import BlobRecord

extension UnixTime {
  /// The second of a date. Dates that `Int64` cannot count become its least or its greatest value.
  public init(_ date: Date) {
    let seconds = date.timeIntervalSince1970.rounded(.down)
    self.init(seconds: Int64(exactly: seconds) ?? (seconds < 0 ? .min : .max))
  }

  /// The beginning of the second.
  public var date: Date { Date(timeIntervalSince1970: Double(seconds)) }
}
