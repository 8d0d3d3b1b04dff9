internal import BlobRecord
internal import TextFormats

/// HTML text. Literals and interpolated `HTML` values are markup; others are escaped. Attributes have double quotes.
struct HTML: ExpressibleByStringInterpolation, Sendable {
  private(set) var text: String

  init() { text = "" }

  init(stringLiteral markup: String) { text = markup }

  init(stringInterpolation: StringInterpolation) { text = stringInterpolation.text }

  static func += (a: inout HTML, b: HTML) { a.text += b.text }

  struct StringInterpolation: StringInterpolationProtocol {
    fileprivate var text = ""

    init(literalCapacity: Int, interpolationCount: Int) {
      text.reserveCapacity(literalCapacity + 16 * interpolationCount)
    }

    mutating func appendLiteral(_ markup: String) { text += markup }

    mutating func appendInterpolation(_ markup: HTML) { text += markup.text }

    mutating func appendInterpolation(_ parts: [HTML]) { for part in parts { text += part.text } }

    mutating func appendInterpolation(_ number: some BinaryInteger) { text += "\(number)" }

    mutating func appendInterpolation(_ plain: String) { HTML.escape(plain, into: &text) }
  }
}

extension HTML {
  /// Replaces characters that would end a text or an attribute with character references (HTML, 13.1.4).
  fileprivate static func escape(_ plain: String, into text: inout String) {
    for scalar in plain.unicodeScalars {
      switch scalar {
      case "&": text += "&amp;"
      case "<": text += "&lt;"
      case ">": text += "&gt;"
      case "\"": text += "&quot;"
      case "'": text += "&#39;"
      default: text.unicodeScalars.append(scalar)
      }
    }
  }

  /// Makes control characters visible, because a key must not look like another key or change adjacent text.
  static func visible(_ text: String) -> HTML {
    guard text.unicodeScalars.contains(where: \.isUnseen) else { return "<bdi>\(text)</bdi>" }
    var html: HTML = "<bdi>"
    var plain = ""
    for scalar in text.unicodeScalars {
      guard scalar.isUnseen else {
        plain.unicodeScalars.append(scalar)
        continue
      }
      html += "\(plain)<i class=\"unseen\">\(Self.name(of: scalar))</i>"
      plain = ""
    }
    html += "\(plain)</bdi>"
    return html
  }

  private static func name(of scalar: Unicode.Scalar) -> String {
    switch scalar {
    case "\n": "\\n"
    case "\r": "\\r"
    case "\t": "\\t"
    default: "\\u{\(String(scalar.value, radix: 16, uppercase: true))}"
    }
  }
}

extension Unicode.Scalar {
  /// A Boolean value that indicates whether a character is invisible, separates lines or changes the text direction.
  fileprivate var isUnseen: Bool {
    switch value {
    case 0x00...0x1F, 0x7F...0x9F, 0xAD, 0x61C, 0x200B...0x200F, 0x2028...0x202E, 0x2060...0x206F, 0xFEFF,
      0xE0000...0xE007F:
      true
    default: false
    }
  }
}

extension Quantities {
  /// Formats a number with thin spaces between groups of three digits: `1 000 000`.
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
  static func time(_ time: UnixTime, now: UnixTime) -> HTML {
    let date = time.iso8601
    return "<time datetime=\"\(date)\" title=\"\(date)\">\(time.relative(to: now))</time>"
  }

  static func bytes(_ count: Int64) -> HTML {
    "<span title=\"\(Quantities.count(count)) bytes\">\(Quantities.bytes(count))</span>"
  }
}
