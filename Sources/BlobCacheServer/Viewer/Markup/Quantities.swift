internal import BlobRecord
internal import TextFormats

extension Quantities {
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

  static func percent(_ share: Double) -> String { "\((share * 1000).rounded() / 10)\u{2009}%" }
}

extension HTML {
  /// A moment, with its date behind it.
  static func time(_ time: UnixTime, now: UnixTime) -> HTML {
    let date = time.iso8601
    return "<time datetime=\"\(date)\" title=\"\(date)\">\(time.relative(to: now))</time>"
  }

  /// A number of bytes, with all its digits behind it.
  static func bytes(_ count: Int64) -> HTML {
    "<span title=\"\(Quantities.count(count)) bytes\">\(Quantities.bytes(count))</span>"
  }
}
