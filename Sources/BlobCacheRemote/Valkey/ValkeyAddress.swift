/// Where a server of Valkey or Redis listens.
public struct ValkeyAddress: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// A name or a numeric address.
  public var host: String
  public var port: Int

  /// - Parameters:
  ///   - host: a name or a numeric address.
  ///   - port: from 1 to 65535.
  public init(_ host: String, port: Int = 6379) {
    self.host = host
    self.port = port
  }

  public var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

  public static func < (a: ValkeyAddress, b: ValkeyAddress) -> Bool { (a.host, a.port) < (b.host, b.port) }
}

extension ValkeyAddress {
  /// Whether nothing leaves this machine on the way there. Other names may lead anywhere, even if they begin with `127.`.
  var isThisMachine: Bool {
    if host == "localhost" || host == "::1" { return true }
    let parts = host.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 4 && parts[0] == "127"
      && parts.allSatisfy { part in UInt8(part).map { "\($0)" == part } ?? false }
  }

  /// An address as a node of a cluster says it: `HOST:PORT`, where an IPv6 host has no brackets.
  ///
  /// - Parameter speaker: the node that says it. It leaves its own host out, if it does not know it.
  init?(_ text: some StringProtocol, from speaker: ValkeyAddress) {
    guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]),
      (1...65535).contains(port)
    else { return nil }
    let host = text[..<colon]
    self.init(host.isEmpty || host == "?" ? speaker.host : String(host), port: port)
  }
}
