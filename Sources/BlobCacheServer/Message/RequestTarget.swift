internal import TextFormats

/// The path and query of a request. The path is never normalized: `..`, `//` and a trailing slash are parts of a key.
struct RequestTarget {
  let path: Substring
  /// The decoded parameters. The value of a parameter without `=` is empty.
  let query: [(name: String, value: String)]

  /// - Throws: 400 for a target without a leading slash (RFC 9112, 3.2), with invalid bytes, or with invalid escapes.
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

  func parameter(_ name: String) -> String? { query.first { $0.name == name }?.value }

  /// Decodes percent escapes once.
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

/// The target of a request as a log shows it, without secrets.
///
/// Logs are often readable by more people than the secrets are, and are kept for longer.
package enum LoggedTarget {
  /// Parts of the names of parameters that can be secrets, such as `access_token` and `X-Amz-Signature`.
  private static let secretNames = ["token", "secret", "password", "passwd", "auth", "credential", "signature"]

  /// Returns the target with `REDACTED` for the values of parameters that can be secrets, and for a user and password
  /// before the host.
  package static func text(_ target: String) -> String {
    let mark = target.utf8.firstIndex(of: UInt8(ascii: "?")) ?? target.endIndex
    let place = withoutUser(target[..<mark])
    guard mark < target.endIndex else { return place }
    let query = target[target.utf8.index(after: mark)...].split(separator: "&", omittingEmptySubsequences: false)
    return place + "?" + query.map(parameter).joined(separator: "&")
  }

  private static func parameter(_ text: Substring) -> String {
    guard let sign = text.utf8.firstIndex(of: UInt8(ascii: "=")), isSecret(text[..<sign]) else { return String(text) }
    return text[...sign] + "REDACTED"
  }

  /// An escaped name is compared as the server would decode it.
  private static func isSecret(_ name: Substring) -> Bool {
    let decoded = PercentEncoding.bytes(decoding: name).map { String(decoding: $0, as: UTF8.self) } ?? String(name)
    let lowercased = decoded.lowercased()
    return secretNames.contains { lowercased.contains($0) }
  }

  private static func withoutUser(_ place: Substring) -> String {
    guard place.first != "/", let slashes = place.firstRange(of: "://") else { return String(place) }
    let authority = place[slashes.upperBound...].prefix { $0 != "/" }
    guard let end = authority.lastIndex(of: "@") else { return String(place) }
    return place[..<slashes.upperBound] + "REDACTED" + place[end...]
  }
}
