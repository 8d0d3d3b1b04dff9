/// Which hosts a request may name, and which pages it may come from.
///
/// A page of another site can make a browser send requests to this machine's loopback addresses. Its requests name the
/// page's host, if a name server gives that this machine's address, or say that they cross sites.
struct OriginRule {
  /// Whether only names of this machine are allowed as hosts.
  let isForLoopback: Bool

  func check(_ request: ServerRequest) throws(Refusal) {
    guard request.fields.count(of: "Host") <= 1 else { throw Refusal(400, "the request has several Host fields") }
    let host = request.fields["Host"]
    if isForLoopback, let host, !Self.isLoopback(host) {
      throw Refusal(421, "this server answers to localhost, and the request is for another host")
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

  private static func isLoopback(_ host: String) -> Bool {
    var name = host[...]
    // Behind the last colon, unless that lies within brackets, is the port.
    if let colon = name.lastIndex(of: ":"), !name[colon...].contains("]") { name = name[..<colon] }
    let lowercased = name.lowercased()
    return lowercased == "localhost" || lowercased.hasSuffix(".localhost") || lowercased == "[::1]"
      || Self.isLoopbackAddress(name)
  }

  /// 127.0.0.0/8, in its usual form of four numbers.
  private static func isLoopbackAddress(_ name: Substring) -> Bool {
    let parts = name.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 4, parts[0] == "127" else { return false }
    return parts.allSatisfy { part in part.utf8.allSatisfy { (0x30...0x39).contains($0) } && UInt8(part) != nil }
  }
}
