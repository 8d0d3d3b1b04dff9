internal import SystemPackage

/// Writes a line to standard error, as `torture: MESSAGE`.
func writeError(_ message: String) {
  // A standard error that cannot be written to leaves nobody to tell.
  _ = try? FileDescriptor.standardError.writeAll("torture: \(message)\n".utf8)
}
