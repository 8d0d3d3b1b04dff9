internal import Locks
internal import SystemPackage

/// Standard error, for all output that is not a result.
package enum StandardError {
  /// The temporary status line at the end of a terminal, below all messages.
  private static let status = Lock("")

  /// ECMA-48: carriage return and "erase in line".
  private static let eraseLine = "\r\u{1B}[K"

  /// Prints a message with a single write, so that lines of several processes do not interleave.
  package static func report(_ message: String) {
    status.withLock { status in
      write((status.isEmpty ? "" : eraseLine) + "blobcache: \(message.printable)\n" + status)
    }
  }

  /// Replaces the status line. Only for terminals.
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

  /// Clears the status line unless another thread holds the lock, which may be blocked by a stopped terminal.
  static func clearStatusAtOnce() {
    status.withLockIfAvailable { status in
      guard !status.isEmpty else { return }
      status = ""
      write(eraseLine)
    }
  }

  private static func write(_ text: String) {
    // If standard error cannot be written, the exit status still reports the result.
    _ = try? FileDescriptor.standardError.writeAll(text.utf8)
  }
}
