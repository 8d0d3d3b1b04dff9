internal import SystemPackage

/// Writes a line to standard error, as `torture: MESSAGE`.
func writeError(_ message: String) {
  // A failure to write to standard error cannot be reported.
  _ = try? FileDescriptor.standardError.writeAll("torture: \(message)\n".utf8)
}
