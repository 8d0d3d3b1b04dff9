/// The progress of a walk over a directory in one line of a terminal.
struct ProgressLine {
  let label: String
  /// The total number of files, or `nil` if unknown.
  var total: Int64?
  var files: Int64 = 0
  /// The word for the bytes, such as `freed`.
  let bytesName: String
  var bytes: Int64 = 0
  var elapsed: Duration = .zero

  /// - Parameter width: The maximum number of characters.
  func text(width: Int) -> String { Self.text(label: label, fraction: fraction, counts: counts, width: width) }

  /// Returns a label, a bar and the counts, if the width is sufficient for them.
  ///
  /// - Parameter fraction: The fraction of the work that is done, or `nil` if unknown. Without it no bar is shown.
  static func text(label: String, fraction: Double?, counts: String, width: Int) -> String {
    let percentage = fraction.map { "\(Int($0 * 100))%".padded(to: 4, .right) + " " } ?? ""
    // The width that remains for the label and the bar. The counts are shortened only if no label fits.
    let rest = width - counts.count - percentage.count - 1
    guard rest >= shortestLabel else { return String((percentage + counts).prefix(width)) }
    let bar = fraction.map { Self.bar($0, width: min(rest - min(label.count, 30) - 1, 40)) } ?? ""
    let room = rest - bar.count - (bar.isEmpty ? 0 : 1)
    return [shortened(label, to: room), bar, percentage + counts].filter { !$0.isEmpty }.joined(separator: " ")
  }

  private static let shortestLabel = 8
  private static let shortestBar = 7

  private var counts: String {
    var counts = "\(files) files, \(ByteCount(bytes)) \(bytesName)"
    let seconds = elapsed / .seconds(1)
    guard seconds >= 1 else { return counts }
    let rate = Double(files) / seconds
    counts += ", \(Int64(rate))/s"
    if let total, rate >= 1, total >= files {
      counts += ", \(TimeSpan(seconds: Int64(Double(total - files) / rate)).rounded) left"
    }
    return counts
  }

  /// The fraction, at most 0.99 because the total is an estimate.
  private var fraction: Double? {
    guard let total, total > 0 else { return nil }
    return min(Double(files) / Double(total), 0.99)
  }

  private static func bar(_ fraction: Double, width: Int) -> String {
    guard width >= shortestBar else { return "" }
    let filled = Int(fraction * Double(width - 2))
    return "[" + String(repeating: "=", count: filled) + String(repeating: " ", count: width - 2 - filled) + "]"
  }

  private static func shortened(_ text: String, to width: Int) -> String {
    text.count <= width ? text : "..." + text.suffix(max(0, width - 3))
  }
}
