internal import BlobRecord

/// Numbers as people read them.
enum Quantities {
  /// To a tenth of a decimal unit: `512 B`, `34.2 KB`.
  static func bytes(_ count: Int64) -> String {
    guard count >= 1000 else { return "\(max(0, count)) B" }
    var value = Double(count)
    var unit = "B"
    for larger in ["KB", "MB", "GB", "TB", "PB", "EB"] where value >= 999.95 {
      value /= 1000
      unit = larger
    }
    return "\((value * 10).rounded() / 10) \(unit)"
  }

  /// With a thin space between groups of three digits: `1 000 000`.
  static func count(_ number: Int64) -> String {
    let digits = "\(number.magnitude)"
    var text = ""
    for (index, digit) in digits.enumerated() {
      if index > 0, (digits.count - index) % 3 == 0 { text += "\u{2009}" }
      text.append(digit)
    }
    return number < 0 ? "-" + text : text
  }

  /// In the largest unit that fits: `3h` for anything from three hours to four; years count 365 days.
  static func span(_ seconds: Int64) -> String {
    let units: [(name: String, seconds: Int64)] = [("y", 365 * 86_400), ("d", 86_400), ("h", 3600), ("m", 60)]
    guard seconds < 10_000 * 365 * 86_400 else { return "ages" }
    guard let unit = units.first(where: { seconds >= $0.seconds }) else { return "\(max(0, seconds))s" }
    return "\(seconds / unit.seconds)\(unit.name)"
  }

  /// `in 9m`, `3h ago`, `now`.
  static func moment(_ time: UnixTime, now: UnixTime) -> String {
    let (difference, overflow) = time.seconds.subtractingReportingOverflow(now.seconds)
    guard !overflow, difference.magnitude < 10_000 * 365 * 86_400 else { return time < now ? "long ago" : "never" }
    if difference == 0 { return "now" }
    return difference > 0 ? "in \(span(difference))" : "\(span(-difference)) ago"
  }

  /// `2026-01-31T06:30:00Z`, while years have four digits.
  static func date(_ time: UnixTime) -> String {
    guard (0...253_402_300_799).contains(time.seconds) else { return time.seconds < 0 ? "before 1970" : "after 9999" }
    return Date(timeIntervalSince1970: Double(time.seconds)).formatted(Date.ISO8601FormatStyle())
  }

  static func percent(_ share: Double) -> String { "\((share * 1000).rounded() / 10)\u{2009}%" }

  /// Upper-case digits, as many as are asked for at the least.
  static func hexadecimal(_ value: some UnsignedInteger, digits: Int) -> String {
    let text = String(value, radix: 16, uppercase: true)
    return String(repeating: "0", count: max(0, digits - text.count)) + text
  }
}

extension HTML {
  /// A moment, with its date behind it.
  static func time(_ time: UnixTime, now: UnixTime) -> HTML {
    let date = Quantities.date(time)
    return "<time datetime=\"\(date)\" title=\"\(date)\">\(Quantities.moment(time, now: now))</time>"
  }

  /// A number of bytes, with all its digits behind it.
  static func bytes(_ count: Int64) -> HTML {
    "<span title=\"\(Quantities.count(count)) bytes\">\(Quantities.bytes(count))</span>"
  }
}
