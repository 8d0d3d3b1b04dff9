internal import TextFormats

/// The address of an HTTP server and the path prefix of its objects.
public struct HTTPEndpoint: Hashable, Sendable {
  /// A Boolean value that indicates whether the scheme is `https`.
  public let isEncrypted: Bool
  /// The host name or address, without brackets.
  public let host: String
  /// The port, which is 80 or 443 by default.
  public let port: Int
  /// The percent-encoded path, either empty or with a leading and without a trailing slash.
  public let path: String

  /// Parses a URL.
  ///
  /// - Parameter url: The URL, such as `https://cache.example:8723/v1/blobs`, without user, query and fragment.
  /// - Throws: `RemoteSettingError` if the URL is invalid.
  public init(_ url: String) throws(RemoteSettingError) {
    func wrong(_ why: String) -> RemoteSettingError {
      RemoteSettingError("endpoint", "\(why), such as https://host:port")
    }
    // A password with a slash would appear to be part of the path. The message must not contain it.
    guard !url.contains("@") else {
      throw RemoteSettingError(
        "endpoint", "it has no user and no password: others would read them; use a file, and %40 for an @")
    }
    let parts = url.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
    guard parts.count >= 3, parts[1].isEmpty, !parts[2].isEmpty else { throw wrong("it is an address") }
    switch parts[0].lowercased() {
    case "http:": isEncrypted = false
    case "https:": isEncrypted = true
    default: throw wrong("it begins with http:// or https://")
    }
    let authority = parts[2]
    guard !url.contains(where: { $0 == "?" || $0 == "#" }) else { throw wrong("it has no query and no fragment") }
    let (host, port) = try Self.split(authority)
    self.host = host
    self.port = port ?? (isEncrypted ? 443 : 80)
    var path = parts.count > 3 ? "/" + parts[3] : ""
    while path.hasSuffix("/") { path.removeLast() }
    guard let plain = PercentEncoding.decoded(path), plain.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7F }) else {
      throw wrong("its path has a wrong escape, or a space or control character")
    }
    guard !plain.split(separator: "/").contains(where: { $0 == "." || $0 == ".." }) else {
      throw wrong("its path has no part . or ..")
    }
    let isPlain = path.utf8.allSatisfy { PercentEncoding.isUnreserved($0) || "/%!$&'()*+,;=:@".utf8.contains($0) }
    self.path = isPlain ? path : PercentEncoding.encoded(plain, keepsSlashes: true)
  }

  init(isEncrypted: Bool, host: String, port: Int, path: String) {
    self.isEncrypted = isEncrypted
    self.host = host
    self.port = port
    self.path = path
  }

  private static func split(_ authority: Substring) throws(RemoteSettingError) -> (host: String, port: Int?) {
    var (host, port): (Substring, Substring?) = (authority, nil)
    if authority.hasPrefix("["), let end = authority.firstIndex(of: "]") {
      host = authority[authority.index(after: authority.startIndex)..<end]
      let rest = authority[authority.index(after: end)...]
      if !rest.isEmpty { port = rest.hasPrefix(":") ? rest.dropFirst() : "?" }
      guard host.contains(":"), host.utf8.allSatisfy({ PercentEncoding.isLetterOrDigit($0) || ":.".utf8.contains($0) })
      else { throw RemoteSettingError("endpoint", "\(authority) is no address of IPv6 in brackets") }
    } else {
      if let colon = authority.firstIndex(of: ":") {
        host = authority[..<colon]
        port = authority[authority.index(after: colon)...]
      }
      guard !host.isEmpty, host.utf8.allSatisfy({ PercentEncoding.isLetterOrDigit($0) || "-._".utf8.contains($0) })
      else {
        throw RemoteSettingError("endpoint", "\(host) is no name of a host")
      }
    }
    guard let port else { return (host.lowercased(), nil) }
    guard port.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(port), (1...65535).contains(number)
    else {
      // The message omits the port, which may be the beginning of a password.
      throw RemoteSettingError("endpoint", "the port is no number from 1 to 65535")
    }
    return (host.lowercased(), number)
  }
}

extension HTTPEndpoint: CustomStringConvertible {
  var authority: String {
    let name = host.contains(":") ? "[\(host)]" : host
    return port == (isEncrypted ? 443 : 80) ? name : "\(name):\(port)"
  }

  public var description: String { "\(isEncrypted ? "https" : "http")://\(authority)\(path)" }

  var isLoopback: Bool {
    if host == "localhost" || host == "::1" { return true }
    let numbers = host.split(separator: ".", omittingEmptySubsequences: false).map { UInt8($0) }
    return numbers.count == 4 && numbers[0] == 127 && !numbers.contains(nil)
  }

  /// - Throws: `RemoteSettingError` if data and secrets would be sent unencrypted over a network.
  func check(allowsPlainHTTP: Bool) throws(RemoteSettingError) {
    guard !isEncrypted, !isLoopback, !allowsPlainHTTP else { return }
    throw RemoteSettingError(
      "endpoint", "\(self) is not encrypted; use https, or say insecure=true where the network is trusted")
  }
}
