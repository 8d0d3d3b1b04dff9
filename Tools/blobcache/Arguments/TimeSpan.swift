internal import ArgumentParser
internal import TextFormats

/// A whole number of seconds as users write it: `90`, `90s`, `10m`, `6h`, `30d`, `1w`.
package struct TimeSpan: Hashable {
  package let seconds: Int64

  package var duration: Duration { .seconds(seconds) }

  private static let units: [(suffix: String, seconds: Int64)] = [("d", 86400), ("h", 3600), ("m", 60), ("s", 1)]
  private static let week: (suffix: String, seconds: Int64) = ("w", 7 * 86400)
}

extension TimeSpan: WrittenValue {
  package static var forms: String {
    "a duration of whole seconds, minutes, hours, days or weeks: 90, 90s, 10m, 6h, 30d, 1w"
  }

  package init?(argument: String) {
    let unit = (Self.units + [Self.week]).first { argument.hasSuffix($0.suffix) } ?? ("", 1)
    guard let count = Int64(digits: argument.dropLast(unit.suffix.count)) else { return nil }
    let (seconds, overflow) = count.multipliedReportingOverflow(by: unit.seconds)
    guard !overflow else { return nil }
    self.seconds = seconds
  }
}

extension TimeSpan: CustomStringConvertible {
  /// The exact duration in the largest unit, up to days, that divides it: `10m`, `90s`.
  package var description: String {
    let unit = Self.units.first { seconds % $0.seconds == 0 && seconds >= $0.seconds } ?? ("s", 1)
    return "\(seconds / unit.seconds)\(unit.suffix)"
  }

  /// The exact duration if it has at most seven characters, otherwise the rounded one.
  var short: String { description.count <= 7 ? description : rounded }

  /// The duration in the largest unit that fits: `3h` from three hours to less than four; a year has 365 days.
  var rounded: String { Quantities.span(seconds) }
}

extension Int64 {
  /// Parses a number that consists only of decimal digits, without a sign.
  init?(digits: some StringProtocol) {
    guard !digits.isEmpty, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    self.init(digits)
  }
}
