#if Remote
  extension ValkeyEngine {
    /// Where a Valkey, a Redis or a cluster of them is, and how it is used.
    public struct Settings: Sendable {
      /// The server, or some nodes of a cluster, which tell of the others.
      public var servers: [ValkeyAddress]
      /// The user that the server's access lists know; nil for the default one.
      public var user: String?
      /// The user's password, which is asked for each connection; nil where the server wants none.
      public var password: Secret?
      /// The number of the database. A cluster has 0 alone.
      public var database = 0
      /// Certificates of TLS 1.2 or 1.3; nil for connections without TLS.
      public var security: TransportSecurity?
      /// The name that servers' certificates must have; nil for the host that is connected to.
      public var serverName: String?
      /// Whether bytes and secrets may cross a network in plain text. To this machine itself they always may.
      public var allowsPlainText = false
      /// Connections to each server at the most, each of which carries many requests at once.
      ///
      /// Values above 256 KiB that are put have as many of their own, so that no load waits behind one.
      public var connections = 4
      /// How long a connection may take until it can be used.
      public var connectTime: Duration = .seconds(2)
      /// Bytes of an object at the most, from 64 to 512 MiB. Both sides hold it in memory whole.
      public var largestObject: Int64 = 8 << 20

      /// - Parameter servers: the server, or some nodes of a cluster.
      public init(_ servers: [ValkeyAddress]) { self.servers = servers }
    }
  }

  extension ValkeyEngine.Settings {
    /// The longest value that the servers keep by default.
    private static let largestValue: Int64 = 512 << 20

    /// Whether secrets and bytes may go there: encrypted, in plain text by permission, or within this machine.
    func mayConnect(to server: ValkeyAddress) -> Bool { security != nil || allowsPlainText || server.isThisMachine }

    /// - Throws: `RemoteSettingError` for the first value that cannot be.
    func check() throws(RemoteSettingError) {
      guard !servers.isEmpty else {
        throw RemoteSettingError("servers", "there is none; name one, such as localhost:6379")
      }
      for server in servers {
        guard !server.host.isEmpty, (1...65535).contains(server.port) else {
          throw RemoteSettingError("servers", "\(server) has no host, or a port that is not from 1 to 65535")
        }
        guard mayConnect(to: server) else {
          throw RemoteSettingError(
            "servers",
            "\(server) is another machine, and without TLS everyone between can read along; use TLS, or insecure")
        }
      }
      guard database >= 0 else { throw RemoteSettingError("database", "\(database) is below 0") }
      guard user == nil || password != nil else {
        throw RemoteSettingError("password", "the user \(user ?? "") has none")
      }
      guard (1...1024).contains(connections) else {
        throw RemoteSettingError("connections", "\(connections) is not from 1 to 1024")
      }
      guard (64...Self.largestValue).contains(largestObject) else {
        throw RemoteSettingError("largestObject", "\(largestObject) is not from 64 to \(Self.largestValue) bytes")
      }
      guard connectTime > .zero else { throw RemoteSettingError("connectTime", "it is not above zero") }
    }
  }
#endif
