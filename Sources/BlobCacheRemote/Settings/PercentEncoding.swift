internal import TextFormats

extension PercentEncoding {
  /// A path in the one form that servers sign: each byte is escaped that must be, and no other.
  ///
  /// - Parameter path: with right escapes. An escaped slash stays one.
  static func canonical(_ path: String) -> String {
    path.split(separator: "/", omittingEmptySubsequences: false).map { part in
      decoded(part).map { encoded($0) } ?? String(part)
    }.joined(separator: "/")
  }
}
