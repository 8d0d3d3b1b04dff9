/// A rule against pages of other sites, which can make a browser send requests to any address that it reaches. Such a
/// request names the page's host if that name resolves to this server, and otherwise has a field that marks it as
/// cross-site. An IP address as the host involves no name server.
struct OriginRule {
  /// The allowed names in addition to addresses and `localhost`, or `nil` for any name.
  let hostNames: Set<String>?

  func check(_ request: ServerRequest) throws(Refusal) {
    guard request.fields.count(of: "Host") <= 1 else { throw Refusal(400, "the request has several Host fields") }
    let host = request.fields["Host"]
    if let host, !allows(host) {
      throw Refusal(421, "this server answers to addresses, localhost and its own names, and not to this host")
    }
    guard !["GET", "HEAD", "OPTIONS"].contains(request.method) else { return }
    if let site = request.fields["Sec-Fetch-Site"], site != "same-origin", site != "none" {
      throw Refusal(403, "a page of another site may change nothing here")
    }
    if let origin = request.fields["Origin"] {
      guard let host, origin == "http://" + host || origin == "https://" + host else {
        throw Refusal(403, "a page of another site may change nothing here")
      }
    }
  }

  private func allows(_ host: String) -> Bool {
    guard let hostNames else { return true }
    var name = host[...]
    // The port follows the last colon, unless the colon is within brackets.
    if let colon = name.lastIndex(of: ":"), !name[colon...].contains("]") { name = name[..<colon] }
    if Self.isAddress(name) { return true }
    let lowercased = name.lowercased()
    return lowercased == "localhost" || lowercased.hasSuffix(".localhost")
      || hostNames.contains { $0.lowercased() == lowercased }
  }

  /// Recognizes IPv4 addresses and bracketed IPv6 addresses, which are not valid host names.
  private static func isAddress(_ name: Substring) -> Bool {
    if name.hasPrefix("["), name.hasSuffix("]") {
      let inner = name.dropFirst().dropLast()
      return inner.contains(":") && inner.allSatisfy { $0.isHexDigit && $0.isASCII || $0 == ":" || $0 == "." }
    }
    let parts = name.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 4
      && parts.allSatisfy { part in part.utf8.allSatisfy { (0x30...0x39).contains($0) } && UInt8(part) != nil }
  }
}
