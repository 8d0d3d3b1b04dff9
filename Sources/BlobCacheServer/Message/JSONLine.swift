/// One object of JSON on a line, whose members keep the order of their addition; `type` is the first.
///
/// The objects are those of the tool: CommandLine.md.
struct JSONLine {
  private var members: String

  init(type: String) {
    members = ""
    add("type", type)
  }

  var text: String { "{" + members + "}\n" }

  mutating func add(_ name: String, _ value: String?) { add(name, literal: value.map(Self.quoted)) }

  mutating func add(_ name: String, _ value: (some BinaryInteger)?) { add(name, literal: value.map { String($0) }) }

  mutating func add(_ name: String, _ value: Bool) { add(name, literal: value ? "true" : "false") }

  private mutating func add(_ name: String, literal: String?) {
    if !members.isEmpty { members += "," }
    members += Self.quoted(name) + ":" + (literal ?? "null")
  }

  /// The text as a string of RFC 8259, section 7.
  private static func quoted(_ text: String) -> String {
    var quoted = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": quoted += "\\\""
      case "\\": quoted += "\\\\"
      case "\n": quoted += "\\n"
      case "\u{0}"..."\u{1F}", "\u{7F}":
        let digits = String(scalar.value, radix: 16)
        quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: quoted.unicodeScalars.append(scalar)
      }
    }
    return quoted + "\""
  }
}
