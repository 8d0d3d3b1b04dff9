#if Remote
  extension ValkeyEngine {
    /// The settings of an engine for Valkey, Redis or a cluster of them.
    public struct Settings: Sendable {
      /// The server, or some nodes of a cluster, which report the other nodes.
      public var servers: [ValkeyAddress]
      /// The user in the server's access lists, or `nil` for the default user.
      public var user: String?
      /// The user's password, which is read for each connection, or `nil` if the server requires none.
      public var password: Secret?
      /// The number of the database. A cluster has only database 0.
      public var database = 0
      /// The certificates for TLS 1.2 or 1.3, or `nil` for unencrypted connections.
      public var security: TransportSecurity?
      /// The name in the servers' certificates, or `nil` for the host of the connection.
      public var serverName: String?
      /// A Boolean value that indicates whether data and secrets may be sent unencrypted to other machines.
      public var allowsPlainText = false
      /// The maximum number of connections to each server, each of which carries many concurrent requests.
      ///
      /// Uploads of values above 256 KiB use as many additional connections, so that loads do not wait for them.
      public var connections = 4
      /// The timeout for a connection until it is ready for use.
      public var connectTime: Duration = .seconds(2)
      /// The maximum size of an object, from 64 bytes to 512 MiB. Client and server hold the whole object in memory.
      public var largestObject: Int64 = 8 << 20

      /// Creates settings with default values.
      ///
      /// - Parameter servers: The server, or some nodes of a cluster.
      public init(_ servers: [ValkeyAddress]) { self.servers = servers }
    }
  }

  extension ValkeyEngine.Settings {
    private static let largestValue: Int64 = 512 << 20

    func mayConnect(to server: ValkeyAddress) -> Bool { security != nil || allowsPlainText || server.isThisMachine }

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
