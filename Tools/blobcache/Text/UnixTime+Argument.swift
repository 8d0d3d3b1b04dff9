internal import ArgumentParser
public import BlobRecord

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

extension UnixTime: WrittenValue {
  package static var forms: String {
    "a time since 1970: Unix seconds or ISO 8601, such as 1700000000, 2023-11-14, 2023-11-14T22:13:20Z"
  }

  /// Parses Unix seconds or ISO 8601, such as `2026-01-31` or `2026-01-31T06:30:00+01:00`.
  ///
  /// Fractions are dropped. Without a zone the time is UTC. Times before 1970 are rejected, as no record has one.
  public init?(argument: String) {
    if let seconds = Int64(digits: argument) {
      self.init(seconds: seconds)
      return
    }
    let shape = /(\d{4}-\d\d-\d\d)(T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]\d\d:\d\d)?)?/.asciiOnlyDigits()
    guard let match = argument.wholeMatch(of: shape) else { return nil }
    let style = Date.ISO8601FormatStyle()
    do {
      // The parser accepts February 30 as March 1 or 2. Formatting the parsed day again reveals such dates.
      let midnight = "\(match.1)T00:00:00Z"
      guard try style.parse(midnight).formatted(style) == midnight else { return nil }
      let zone = match.2 != nil && match.5 == nil ? "Z" : ""
      let date = try style.parse(match.2 == nil ? midnight : argument + zone)
      let seconds = Int64(date.timeIntervalSince1970.rounded(.down))
      guard seconds >= 0 else { return nil }
      self.init(seconds: seconds)
    } catch {
      return nil
    }
  }
}
