#if Server
  internal import ArgumentParser
  internal import BlobCacheCommands
  internal import BlobCacheServer

  /// A listening address, such as `127.0.0.1:8723`, `[::1]:8723`, `localhost:0` or `unix:/run/blobcache.sock`.
  struct ListenAddress {
    let address: BlobServer.Address

    /// A Boolean value that indicates whether only programs on this machine can reach the address.
    var isLocal: Bool {
      switch address {
      case .host(let name, _):
        name == "localhost" || name == "::1" || name.hasPrefix("127.") && name.allSatisfy { $0.isNumber || $0 == "." }
      case .unixSocket: true
      }
    }

    /// A Boolean value that indicates whether browsers can reach the address. They cannot reach Unix sockets.
    var isOnNetwork: Bool {
      if case .host = address { true } else { false }
    }
  }

  extension ListenAddress: WrittenValue {
    static var forms: String { "HOST:PORT, such as 127.0.0.1:8723 or [::1]:8723, or unix:PATH" }

    init?(argument: String) {
      if argument.hasPrefix("unix:") {
        let path = argument.dropFirst("unix:".count)
        guard !path.isEmpty else { return nil }
        address = .unixSocket(path: String(path))
        return
      }
      guard let colon = argument.lastIndex(of: ":"),
        let port = UInt16(argument[argument.index(after: colon)...])
      else { return nil }
      var name = argument[..<colon]
      if name.hasPrefix("["), name.hasSuffix("]") {
        name = name.dropFirst().dropLast()
      } else if name.contains(":") {
        return nil
      }
      guard !name.isEmpty else { return nil }
      address = .host(String(name), port: Int(port))
    }
  }
#endif
