/// A JSON value that keeps the order of its members and is rendered to the same bytes on every platform.
///
/// Encoders of different platforms and versions differ in order, escapes and spacing, but tests compare the manifest.
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

  /// Returns the JSON text. A value that does not fit into a line has each element or member on a separate line.
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

  /// Escapes a string as RFC 8259, section 7, requires. DEL is also escaped, so that editors show it.
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
