internal import TextFormats

/// Where a server listens for HTTP, and the path that its objects lie under.
public struct HTTPEndpoint: Hashable, Sendable {
  /// Whether it is `https`.
  public let isEncrypted: Bool
  /// A name or an address, without brackets.
  public let host: String
  /// 80 or 443 if the URL names none.
  public let port: Int
  /// With its escapes; empty, or with a slash at its beginning and none at its end.
  public let path: String

  /// - Parameter url: such as `https://cache.example:8723/v1/blobs`, without user, query or fragment.
  /// - Throws: `RemoteSettingError`.
  public init(_ url: String) throws(RemoteSettingError) {
    func wrong(_ why: String) -> RemoteSettingError {
      RemoteSettingError("endpoint", "\(why), such as https://host:port")
    }
    // A password may have a slash, and then stands where the path does. It is not told.
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
      // It may be the beginning of a password.
      throw RemoteSettingError("endpoint", "the port is no number from 1 to 65535")
    }
    return (host.lowercased(), number)
  }
}

extension HTTPEndpoint: CustomStringConvertible {
  /// What `Host` says.
  var authority: String {
    let name = host.contains(":") ? "[\(host)]" : host
    return port == (isEncrypted ? 443 : 80) ? name : "\(name):\(port)"
  }

  public var description: String { "\(isEncrypted ? "https" : "http")://\(authority)\(path)" }

  /// Whether it lies on this machine, by its name.
  var isLoopback: Bool {
    if host == "localhost" || host == "::1" { return true }
    let numbers = host.split(separator: ".", omittingEmptySubsequences: false).map { UInt8($0) }
    return numbers.count == 4 && numbers[0] == 127 && !numbers.contains(nil)
  }

  /// - Throws: `RemoteSettingError` where bytes and secrets would cross a network in plain text.
  func check(allowsPlainHTTP: Bool) throws(RemoteSettingError) {
    guard !isEncrypted, !isLoopback, !allowsPlainHTTP else { return }
    throw RemoteSettingError(
      "endpoint", "\(self) is not encrypted; use https, or say insecure=true where the network is trusted")
  }
}
