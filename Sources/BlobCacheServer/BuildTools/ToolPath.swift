/// A path below a build tool's prefix: names with slashes between them.
///
/// The names that tools make are short and plain. Others are refused, though as keys they would do no harm.
struct ToolPath {
  /// Without escapes.
  let names: [String]
  /// Whether a slash ends the path, as that of a collection in WebDAV.
  let endsWithSlash: Bool

  private static let longestName = 255

  /// - Parameter path: without the slash at its beginning.
  /// - Throws: 400 for a name that is empty, has more than 255 bytes, is `.` or `..`, or has something else than letters
  ///   and digits of ASCII, `-`, `.`, `_` and `~` (RFC 3986, 2.3).
  init(_ path: Substring) throws(Refusal) {
    endsWithSlash = path.hasSuffix("/") || path.isEmpty
    var names: [String] = []
    if !path.isEmpty {
      // An escaped slash is no boundary, and no name has one.
      for part in (endsWithSlash ? path.dropLast() : path).split(separator: "/", omittingEmptySubsequences: false) {
        names.append(try Self.name(part))
      }
    }
    self.names = names
  }

  private static func name(_ text: Substring) throws(Refusal) -> String {
    let name = try RequestTarget.decoded(text)
    guard !name.isEmpty, name.utf8.count <= longestName, name != ".", name != "..", name.utf8.allSatisfy(isUnreserved)
    else {
      throw Refusal(400, "each name of the path has 1 to \(longestName) letters and digits, and -, ., _ and ~")
    }
    return name
  }

  private static func isUnreserved(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "a")...UInt8(ascii: "z"):
      true
    default: "-._~".utf8.contains(byte)
    }
  }
}
