#if Server
  extension BlobServer {
    /// Where a server listens, and what it allows.
    public struct Configuration: Sendable {
      public var address = Address.host("127.0.0.1", port: 8723)
      public var limits = Limits()
      /// TLS; nil for plain HTTP.
      public var encryption: Encryption?
      /// Whether each request is logged, at the level `notice`: what it asks for, its status, and how long it took.
      public var logsRequests = false

      public init() {}
    }

    /// Where a server listens.
    public enum Address: Hashable, Sendable, CustomStringConvertible {
      /// An address of a network, or a name of one. The system chooses the port if it is 0.
      case host(String, port: Int)
      /// A socket in the file system. It is for the user of the server alone, unless its `AccessControl` names users. A
      /// socket without a server behind it is replaced.
      case unixSocket(path: String)

      /// Such as `127.0.0.1:8723`, `[::1]:8723` or `unix:/run/blobcache.sock`.
      public var description: String {
        switch self {
        case .host(let name, let port): name.contains(":") ? "[\(name)]:\(port)" : "\(name):\(port)"
        case .unixSocket(let path): "unix:\(path)"
        }
      }

      var isUnixSocket: Bool {
        if case .unixSocket = self { true } else { false }
      }

      func withPort(_ port: Int?) -> Address {
        if case .host(let name, _) = self, let port { .host(name, port: port) } else { self }
      }
    }

    /// What the clients of a server may take of it.
    public struct Limits: Hashable, Sendable {
      /// Connections at a time. Others wait until one ends.
      public var connections = 1024
      /// Bytes of the fields of a request, and of its target. More is answered with 431.
      public var headerBytes = 16 << 10
      /// How long a connection may be without a request, and a client without sending 16 KiB of a body, or taking anything
      /// of an answer.
      public var patience: Duration = .seconds(60)

      public init() {}
    }
  }
#endif
