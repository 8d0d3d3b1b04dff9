internal import Posix
internal import SystemPackage

/// Shows on standard error how far a payload has come, if that is a terminal and it takes longer than a second.
final class TransferBar {
  private var line: TransferLine
  private let start = SystemClock.coarseMilliseconds()
  private var lastDrawn: Int64

  private static let firstMilliseconds: Int64 = 1000
  /// Time between two drawings, so that a terminal at the end of a slow line keeps up.
  private static let minimumMilliseconds: Int64 = 100

  /// - Parameters:
  ///   - label: names the payload, such as its key.
  ///   - total: bytes in all; nil if unknown.
  /// - Returns: nil without a terminal.
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
    // One column is left free: a terminal may break the line when the last is written.
    StandardError.showStatus(line.text(width: (Terminal.width(of: .standardError) ?? 80) - 1))
  }
}
