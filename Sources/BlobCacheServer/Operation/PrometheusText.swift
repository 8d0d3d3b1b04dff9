/// Metrics as Prometheus reads them:
/// https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
struct PrometheusText {
  private(set) var text = ""

  enum Kind: String {
    case counter, gauge
  }

  /// Begins a family of series.
  mutating func family(_ name: String, _ kind: Kind, _ help: String) {
    text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind.rawValue)\n"
  }

  mutating func series(_ name: String, _ labels: [(String, String)], _ value: some BinaryInteger) {
    let labels = labels.map { "\($0)=\"\(Self.escaped($1))\"" }.joined(separator: ",")
    text += "\(name){\(labels)} \(value)\n"
  }

  private static func escaped(_ value: String) -> String {
    value.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
  }
}
