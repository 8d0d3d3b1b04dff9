#if Remote
  internal import BlobCache
  internal import NIOCore
  internal import NIOSSL

  /// Creates connections that are ready for use: encrypted, authenticated and with a selected database.
  struct ValkeyDialer: Sendable {
    let failure: ValkeyFailure
    private let settings: ValkeyEngine.Settings
    private let context: NIOSSLContext?

    init(_ settings: ValkeyEngine.Settings, _ failure: ValkeyFailure) throws(RemoteSettingError) {
      self.settings = settings
      self.failure = failure
      guard let configuration = try settings.security?.configuration() else {
        context = nil
        return
      }
      do {
        context = try NIOSSLContext(configuration: configuration)
      } catch {
        throw RemoteSettingError("key", "it is not the key of the certificate; name the two that were made together")
      }
    }

    func connection(
      to server: ValkeyAddress, listener: (@Sendable (RESPValue) -> Void)? = nil
    ) async throws -> RESPConnection {
      // Nodes of a cluster can refer to other nodes that no setting contains.
      guard settings.mayConnect(to: server) else {
        throw RemoteError(
          .refused,
          "\(failure.engine): the node \(server) is another machine, and without TLS everyone between can read along; "
            + "set security (valkeys://), or allow plain text (insecure=true)")
      }
      do {
        let time = TimeAmount(settings.connectTime)
        let connection = try await RESPConnection(
          host: server.host, port: server.port, within: time, encryption: encryption(to: server), listener: listener)
        let end = connection.close(after: time, ChannelError.connectTimeout(time))
        defer { end.cancel() }
        do {
          try await introduce(connection, server)
          return connection
        } catch {
          connection.close(error)
          throw error
        }
      } catch {
        throw failure.error(error, at: server, isNew: true)
      }
    }

    private func encryption(to server: ValkeyAddress) -> (@Sendable () throws -> NIOSSLClientHandler)? {
      guard let context else { return nil }
      let name = settings.serverName ?? server.host
      // For a numeric name, the certificate has to contain the IP address of the connection.
      let isNumeric = (try? SocketAddress(ipAddress: name, port: 0)) != nil
      return { try NIOSSLClientHandler(context: context, serverHostname: isNumeric ? nil : name) }
    }

    private func introduce(_ connection: RESPConnection, _ server: ValkeyAddress) async throws {
      let password = try await readPassword()
      let (user, name) = (settings.user ?? "default", "blobcache")
      let credentials = password.map { ["AUTH", user, $0] } ?? []
      let greeting = try await connection.send([RESPCommand(["HELLO", "3"] + credentials + ["SETNAME", name])])[0]
      if case .error(let text) = greeting {
        // Servers before Redis 6 have no HELLO, and some proxies do not support RESP3.
        guard text.hasPrefix("ERR") || text.hasPrefix("NOPROTO"), !ValkeyFailure.isFull(text) else {
          throw refusal(text, server)
        }
        if let password {
          let arguments = [settings.user, password].compactMap { $0 }
          try await expectNoError(RESPCommand(["AUTH"] + arguments), connection, server)
        }
        // The name is only for the server's list of connections, so its reply is irrelevant.
        _ = try await connection.send([RESPCommand("CLIENT", "SETNAME", name)])
      }
      if settings.database != 0 {
        try await expectNoError(RESPCommand("SELECT", "\(settings.database)"), connection, server)
      } else if password == nil {
        // HELLO succeeds even without authentication, but PING does not.
        try await expectNoError(RESPCommand("PING"), connection, server)
      }
    }

    private func readPassword() async throws -> String? {
      guard let password = settings.password else { return nil }
      do {
        return try await password.text()
      } catch let error as CancellationError {
        throw error
      } catch {
        throw RemoteError(
          .refused, "\(failure.engine): the password cannot be read; set password (\(error))", cause: error)
      }
    }

    private func expectNoError(
      _ command: RESPCommand, _ connection: RESPConnection, _ server: ValkeyAddress
    ) async throws {
      if case .error(let text) = try await connection.send([command])[0] { throw refusal(text, server) }
    }

    private func refusal(_ text: String, _ server: ValkeyAddress) -> RemoteError {
      failure.error(reply: text, from: server)
    }
  }
#endif

/// The address of a Valkey or Redis server.
public struct ValkeyAddress: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The host name or numeric address.
  public var host: String
  public var port: Int

  /// Creates an address.
  ///
  /// - Parameters:
  ///   - host: The host name or numeric address.
  ///   - port: The port, from 1 to 65535.
  public init(_ host: String, port: Int = 6379) {
    self.host = host
    self.port = port
  }

  public var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

  public static func < (a: ValkeyAddress, b: ValkeyAddress) -> Bool { (a.host, a.port) < (b.host, b.port) }
}

extension ValkeyAddress {
  /// A Boolean value that indicates whether the host is this machine. Other names may resolve to any address.
  var isThisMachine: Bool {
    if host == "localhost" || host == "::1" { return true }
    let parts = host.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 4 && parts[0] == "127"
      && parts.allSatisfy { part in UInt8(part).map { "\($0)" == part } ?? false }
  }

  /// Parses `HOST:PORT` of a cluster node, where IPv6 hosts have no brackets and unknown hosts are omitted.
  init?(_ text: some StringProtocol, from speaker: ValkeyAddress) {
    guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]),
      (1...65535).contains(port)
    else { return nil }
    let host = text[..<colon]
    self.init(host.isEmpty || host == "?" ? speaker.host : String(host), port: port)
  }
}
