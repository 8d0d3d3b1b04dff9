internal import TextFormats

/// The path and the query of a request, as they were sent.
///
/// A path is never normalised: `..`, `//` and a trailing slash are parts of a key.
struct RequestTarget {
  /// From the first slash on, escapes included.
  let path: Substring
  /// The parameters, decoded; the value is empty where there is no `=`.
  let query: [(name: String, value: String)]

  /// - Throws: 400 for another form than the one that begins with a slash (RFC 9112, 3.2), for bytes that a target
  ///   cannot have, and for wrong escapes in the query.
  init(_ target: String) throws(Refusal) {
    guard target.utf8.first == UInt8(ascii: "/") else {
      throw Refusal(400, "the target of the request must begin with a slash")
    }
    guard target.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "#") }) else {
      throw Refusal(400, "the target of the request has a byte that must be escaped")
    }
    guard let mark = target.utf8.firstIndex(of: UInt8(ascii: "?")) else {
      path = target[...]
      query = []
      return
    }
    path = target[..<mark]
    var query: [(name: String, value: String)] = []
    for part in target[target.utf8.index(after: mark)...].split(separator: "&") {
      let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      query.append((try Self.decoded(pair[0]), pair.count > 1 ? try Self.decoded(pair[1]) : ""))
    }
    self.query = query
  }

  /// The value of a parameter; nil if it is not there.
  func parameter(_ name: String) -> String? { query.first { $0.name == name }?.value }

  /// Text without its escapes, which are taken off once.
  ///
  /// - Throws: 400 if a `%` lacks two hexadecimal digits, or if the bytes are not UTF-8.
  static func decoded(_ text: Substring) throws(Refusal) -> String {
    guard text.utf8.contains(UInt8(ascii: "%")) else { return String(text) }
    guard let decoded = PercentEncoding.bytes(decoding: text) else {
      throw Refusal(400, "a percent sign is not followed by two hexadecimal digits")
    }
    guard let text = String(validating: decoded, as: UTF8.self) else {
      throw Refusal(400, "the escapes of the target are not UTF-8")
    }
    return text
  }
}
