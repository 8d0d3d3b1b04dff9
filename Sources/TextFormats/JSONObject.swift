/// A JSON object on one line, whose members keep the order in which they are added.
package struct JSONObject {
  private var members = ""
  private let abbreviatesTabs: Bool

  /// Creates an object whose first member is `type`.
  ///
  /// - Parameter abbreviatesTabs: A Boolean value that indicates whether tabs and carriage returns are written as `\t`
  ///   and `\r` rather than as `\u0009` and `\u000d`. The server writes the long form.
  package init(type: String, abbreviatesTabs: Bool = true) {
    self.abbreviatesTabs = abbreviatesTabs
    add("type", type)
  }

  package init() { abbreviatesTabs = true }

  package var text: String { "{" + members + "}" }

  package mutating func add(_ name: String, _ value: String?) { add(name, literal: value.map(quoted)) }

  package mutating func add(_ name: String, _ value: (some BinaryInteger)?) {
    add(name, literal: value.map { String($0) })
  }

  package mutating func add(_ name: String, _ value: Bool) { add(name, literal: value ? "true" : "false") }

  /// Adds a duration, rounded to the microsecond.
  package mutating func add(_ name: String, seconds: Double) {
    add(name, literal: "\((seconds * 1e6).rounded() / 1e6)")
  }

  /// Adds a ratio, rounded to the millionth.
  package mutating func add(_ name: String, ratio: Double?) {
    add(name, literal: ratio.map { "\(($0 * 1e6).rounded() / 1e6)" })
  }

  package mutating func add(_ name: String, _ values: [String]) {
    add(name, literal: "[" + values.map(quoted).joined(separator: ",") + "]")
  }

  package mutating func add(_ name: String, _ value: JSONObject) { add(name, literal: value.text) }

  package mutating func add(_ name: String, _ values: [JSONObject]) {
    add(name, literal: "[" + values.map(\.text).joined(separator: ",") + "]")
  }

  private mutating func add(_ name: String, literal: String?) {
    if !members.isEmpty { members += "," }
    members += quoted(name) + ":" + (literal ?? "null")
  }

  /// Escapes quotation marks, backslashes and control characters (RFC 8259, section 7).
  private func quoted(_ text: String) -> String {
    let needsEscape = text.utf8.contains { $0 < 0x20 || $0 == 0x7F || $0 == 0x22 || $0 == 0x5C }
    guard needsEscape else { return "\"\(text)\"" }
    var quoted = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": quoted += "\\\""
      case "\\": quoted += "\\\\"
      case "\n": quoted += "\\n"
      case "\r" where abbreviatesTabs: quoted += "\\r"
      case "\t" where abbreviatesTabs: quoted += "\\t"
      case "\u{0}"..."\u{1F}", "\u{7F}":
        let digits = String(scalar.value, radix: 16)
        quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: quoted.unicodeScalars.append(scalar)
      }
    }
    return quoted + "\""
  }
}
