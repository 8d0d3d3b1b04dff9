/// How an HTTP server is told the name of an object.
public enum HTTPNames: String, CaseIterable, Hashable, Sendable {
  /// As a path, each part escaped.
  case path
  /// As the SHA-256 of the name in 64 hexadecimal digits, for servers that take no other: bazel-remote below `/ac`.
  ///
  /// Such names tell no keys, so nothing is listed.
  case sha256
}
