/// Which hosts a request may name, and which pages it may come from.
///
/// A page of another site can make a browser send requests to any address that the browser reaches. Its requests name the
/// page's host, if a name server gives that the server's address, or say that they cross sites. An address as the host has
/// asked no name server.
struct OriginRule {
  /// Allowed beside addresses and `localhost`; nil for any.
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
    // Behind the last colon, unless that lies within brackets, is the port.
    if let colon = name.lastIndex(of: ":"), !name[colon...].contains("]") { name = name[..<colon] }
    if Self.isAddress(name) { return true }
    let lowercased = name.lowercased()
    return lowercased == "localhost" || lowercased.hasSuffix(".localhost")
      || hostNames.contains { $0.lowercased() == lowercased }
  }

  /// Four numbers with dots, or hexadecimal digits with colons in brackets, as no name has them.
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
