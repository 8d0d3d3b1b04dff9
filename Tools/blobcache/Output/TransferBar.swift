internal import Posix
internal import SystemPackage

/// Shows a payload's progress on standard error, if that is a terminal, after a transfer time of one second.
final class TransferBar {
  private var line: TransferLine
  private let start = SystemClock.coarseMilliseconds()
  private var lastDrawn: Int64

  private static let firstMilliseconds: Int64 = 1000
  /// The minimum time between two updates, so that a terminal on a slow connection can keep up.
  private static let minimumMilliseconds: Int64 = 100

  /// - Parameters:
  ///   - label: The name of the payload, such as its key.
  ///   - total: The total number of bytes, or `nil` if unknown.
  /// - Returns: The bar, or `nil` if standard error is not a terminal.
  init?(_ label: String, total: Int64?, quiet: Bool) {
    guard !quiet, Terminal.isTerminal(.standardError), Style.environmentAllowsCursorMovement else { return nil }
    line = TransferLine(label: label.printable, total: total)
    lastDrawn = start + Self.firstMilliseconds - Self.minimumMilliseconds
  }

  deinit { StandardError.clearStatus() }

  func add(_ byteCount: Int) {
    line.bytes += Int64(byteCount)
    let now = SystemClock.coarseMilliseconds()
    guard now - lastDrawn >= Self.minimumMilliseconds else { return }
    lastDrawn = now
    line.elapsed = .milliseconds(now - start)
    // The last column stays empty, because a terminal may wrap the line when it is written.
    StandardError.showStatus(line.text(width: (Terminal.width(of: .standardError) ?? 80) - 1))
  }
}
