internal import SystemPackage

/// Standard error, for all that is no result.
enum StandardError {
  /// Prints a line for people, by one write so that processes do not mix theirs.
  static func report(_ message: String) {
    // Where standard error cannot be written, the exit status still tells.
    _ = try? FileDescriptor.standardError.writeAll("blobcache: \(message.printable)\n".utf8)
  }
}
