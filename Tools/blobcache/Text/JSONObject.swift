/// One line of JSON, whose members keep the order of their addition.
///
/// The type comes first.
package struct JSONObject {
  private var members: String

  package init(type: String) {
    members = ""
    add("type", type)
  }

  /// An object within another.
  init() {
    members = ""
  }

  var text: String { "{" + members + "}" }

  package mutating func add(_ name: String, _ value: String?) {
    add(name, literal: value.map(Self.quoted))
  }

  package mutating func add(_ name: String, _ value: (some BinaryInteger)?) {
    add(name, literal: value.map { String($0) })
  }

  package mutating func add(_ name: String, _ value: Bool) {
    add(name, literal: value ? "true" : "false")
  }

  /// A duration, to the microsecond.
  mutating func add(_ name: String, seconds: Double) {
    add(name, literal: "\((seconds * 1e6).rounded() / 1e6)")
  }

  /// A share of a whole, to the millionth.
  mutating func add(_ name: String, ratio: Double?) {
    add(name, literal: ratio.map { "\(($0 * 1e6).rounded() / 1e6)" })
  }

  package mutating func add(_ name: String, _ values: [String]) {
    add(name, literal: "[" + values.map(Self.quoted).joined(separator: ",") + "]")
  }

  mutating func add(_ name: String, _ value: JSONObject) { add(name, literal: value.text) }

  mutating func add(_ name: String, _ values: [JSONObject]) {
    add(name, literal: "[" + values.map(\.text).joined(separator: ",") + "]")
  }

  private mutating func add(_ name: String, literal: String?) {
    if !members.isEmpty { members += "," }
    members += Self.quoted(name) + ":" + (literal ?? "null")
  }

  /// The text as a string of RFC 8259, section 7.
  ///
  /// Quotation mark, reverse solidus and control characters are escaped, the rest is UTF-8.
  private static func quoted(_ text: String) -> String {
    let needsEscape = text.utf8.contains { $0 < 0x20 || $0 == 0x7F || $0 == 0x22 || $0 == 0x5C }
    guard needsEscape else { return "\"\(text)\"" }
    var quoted = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": quoted += "\\\""
      case "\\": quoted += "\\\\"
      case "\n": quoted += "\\n"
      case "\r": quoted += "\\r"
      case "\t": quoted += "\\t"
      case "\u{0}"..."\u{1F}", "\u{7F}":
        let digits = String(scalar.value, radix: 16)
        quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: quoted.unicodeScalars.append(scalar)
      }
    }
    return quoted + "\""
  }
}
