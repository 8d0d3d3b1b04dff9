/// A JSON value that keeps the order of its members and is written the same everywhere, byte for byte.
///
/// Encoders of different platforms and versions differ in order, escapes and spacing; the manifest is compared.
indirect enum JSONText {
  case null
  case bool(Bool)
  case number(String)
  case string(String)
  case array([JSONText])
  case object([(String, JSONText)])

  static func number(_ value: some BinaryInteger) -> JSONText { .number(String(value)) }

  static func hexadecimal(_ value: some FixedWidthInteger & UnsignedInteger) -> JSONText {
    let digits = String(value, radix: 16)
    return .string("0x" + String(repeating: "0", count: value.bitWidth / 4 - digits.count) + digits)
  }

  /// What fits into a line is one; what does not has its members on lines of their own.
  func rendered(indentation: Int = 0) -> String {
    let line = onOneLine
    guard indentation + line.count > 100 else { return line }
    let inner = String(repeating: " ", count: indentation + 2)
    let outer = String(repeating: " ", count: indentation)
    switch self {
    case .null, .bool, .number, .string: return line
    case .array(let elements):
      let lines = elements.map { inner + $0.rendered(indentation: indentation + 2) }
      return "[\n" + lines.joined(separator: ",\n") + "\n" + outer + "]"
    case .object(let members):
      let lines = members.map { inner + Self.quoted($0) + ": " + $1.rendered(indentation: indentation + 2) }
      return "{\n" + lines.joined(separator: ",\n") + "\n" + outer + "}"
    }
  }

  private var onOneLine: String {
    switch self {
    case .null: "null"
    case .bool(let value): value ? "true" : "false"
    case .number(let text): text
    case .string(let text): Self.quoted(text)
    case .array(let elements): "[" + elements.map(\.onOneLine).joined(separator: ", ") + "]"
    case .object(let members):
      "{" + members.map { Self.quoted($0) + ": " + $1.onOneLine }.joined(separator: ", ") + "}"
    }
  }

  /// RFC 8259, section 7: quotes, backslashes and control characters are escaped; DEL is too, so that editors show it.
  private static func quoted(_ text: String) -> String {
    var quoted = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"", "\\": quoted += "\\\(scalar)"
      case "\u{0}"..<"\u{20}", "\u{7F}":
        let digits = String(scalar.value, radix: 16)
        quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: quoted.unicodeScalars.append(scalar)
      }
    }
    return quoted + "\""
  }
}
