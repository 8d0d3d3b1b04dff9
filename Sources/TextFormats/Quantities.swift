/// Human-readable sizes and durations.
package enum Quantities {
  package static let byteUnits: [(suffix: String, bytes: Int64)] = [
    ("KB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("TB", 1_000_000_000_000),
    ("PB", 1_000_000_000_000_000), ("EB", 1_000_000_000_000_000_000),
  ]

  /// A year has 365 days.
  private static let timeUnits: [(suffix: String, seconds: Int64)] = [
    ("y", 365 * 86_400), ("d", 86_400), ("h", 3600), ("m", 60),
  ]

  /// 10,000 years. Longer durations are not formatted in units.
  package static let longestSeconds: Int64 = 10_000 * 365 * 86_400

  /// Formats a number of bytes to a tenth of a decimal unit, such as `512 B` or `34.2 KB`. Negative numbers become 0.
  package static func bytes(
    _ count: Int64, in units: ArraySlice<(suffix: String, bytes: Int64)> = byteUnits[...]
  ) -> String {
    guard count >= 1000, var unit = units.first else { return "\(max(0, count)) B" }
    for larger in units.dropFirst() where tenths(count, of: unit.bytes) >= 10_000 { unit = larger }
    let tenths = tenths(count, of: unit.bytes)
    return "\(tenths / 10).\(tenths % 10) \(unit.suffix)"
  }

  private static func tenths(_ bytes: Int64, of unit: Int64) -> Int64 {
    Int64((Double(bytes) / Double(unit) * 10).rounded())
  }

  /// Formats a duration in its largest unit, such as `3h` below four hours, or as `0s` if it is negative.
  package static func span(_ seconds: Int64) -> String {
    guard seconds < longestSeconds else { return "ages" }
    guard let unit = timeUnits.first(where: { seconds >= $0.seconds }) else { return "\(max(0, seconds))s" }
    return "\(seconds / unit.seconds)\(unit.suffix)"
  }
}
