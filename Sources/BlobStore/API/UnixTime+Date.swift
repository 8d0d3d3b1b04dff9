public import BlobRecord

#if canImport(FoundationEssentials)
  public import FoundationEssentials
#else
  public import Foundation
#endif

extension UnixTime {
  /// The second in which a date lies, held at the ends of what `Int64` counts.
  public init(_ date: Date) {
    let seconds = date.timeIntervalSince1970.rounded(.down)
    self.init(seconds: Int64(exactly: seconds) ?? (seconds < 0 ? .min : .max))
  }

  /// The beginning of the second.
  public var date: Date { Date(timeIntervalSince1970: Double(seconds)) }
}
