/// Metrics in the text format of Prometheus.
///
/// Source: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
package struct PrometheusText {
  package private(set) var text = ""

  package enum Kind: String, Sendable {
    case counter, gauge
  }

  package init() {}

  package mutating func family(_ name: String, _ kind: Kind, _ help: String) {
    text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind.rawValue)\n"
  }

  package mutating func series(
    _ name: String, _ labels: [(String, String)], _ value: some CustomStringConvertible
  ) {
    text += name
    if !labels.isEmpty {
      text += "{" + labels.map { "\($0)=\"\(Self.escaped($1))\"" }.joined(separator: ",") + "}"
    }
    text += " \(value)\n"
  }

  private static func escaped(_ value: String) -> String {
    var escaped = ""
    for scalar in value.unicodeScalars {
      switch scalar {
      case "\\": escaped += "\\\\"
      case "\"": escaped += "\\\""
      case "\n": escaped += "\\n"
      default: escaped.unicodeScalars.append(scalar)
      }
    }
    return escaped
  }
}
