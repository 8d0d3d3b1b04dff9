internal import Locks
internal import SystemPackage

/// Standard error, for all output that is no result.
package enum StandardError {
  /// The line that is shown for a moment at the end of a terminal, below all messages.
  private static let status = Lock("")

  /// ECMA-48: to the start of the line, and erase it.
  private static let eraseLine = "\r\u{1B}[K"

  /// Prints a line for people, by one write so that processes do not mix theirs.
  package static func report(_ message: String) {
    status.withLock { status in
      write((status.isEmpty ? "" : eraseLine) + "blobcache: \(message.printable)\n" + status)
    }
  }

  /// Shows a line in place of the one that was shown before. Only for terminals.
  static func showStatus(_ line: String) {
    status.withLock { status in
      status = line
      write(eraseLine + line)
    }
  }

  static func clearStatus() {
    status.withLock { status in
      guard !status.isEmpty else { return }
      status = ""
      write(eraseLine)
    }
  }

  /// Clears it unless another thread is about to write, which may wait for a terminal that is stopped.
  static func clearStatusAtOnce() {
    status.withLockIfAvailable { status in
      guard !status.isEmpty else { return }
      status = ""
      write(eraseLine)
    }
  }

  private static func write(_ text: String) {
    // Where standard error cannot be written, the exit status still tells.
    _ = try? FileDescriptor.standardError.writeAll(text.utf8)
  }
}
