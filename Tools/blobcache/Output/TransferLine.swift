/// The progress of a payload in one line of a terminal.
struct TransferLine {
  let label: String
  /// The total number of bytes, or `nil` if unknown.
  let total: Int64?
  var bytes: Int64 = 0
  var elapsed: Duration = .zero

  /// - Parameter width: The maximum number of characters.
  func text(width: Int) -> String {
    ProgressLine.text(label: label, fraction: fraction, counts: counts, width: width)
  }

  private var counts: String {
    var counts = "\(ByteCount(bytes))"
    if let total { counts += " of \(ByteCount(total))" }
    let seconds = elapsed / .seconds(1)
    guard seconds > 0 else { return counts }
    let rate = Double(bytes) / seconds
    counts += ", \(ByteCount(Int64(min(rate, 1e18))))/s"
    if let total, rate >= 1, total > bytes {
      counts += ", \(TimeSpan(seconds: Int64(Double(total - bytes) / rate)).rounded) left"
    }
    return counts
  }

  private var fraction: Double? {
    guard let total, total > 0 else { return nil }
    return min(Double(bytes) / Double(total), 1)
  }
}
