#if Remote
  internal import BlobCache
  internal import NIOCore
  internal import NIOSSL

  /// Makes connections that can be used: encrypted, with the user known and the database chosen.
  struct ValkeyDialer: Sendable {
    let failure: ValkeyFailure
    private let settings: ValkeyEngine.Settings
    private let context: NIOSSLContext?

    /// - Throws: `RemoteSettingError` for files of certificates and keys that cannot be used.
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

    /// Connects.
    ///
    /// - Parameter listener: takes what comes on channels that are listened to; nil if none will be.
    /// - Throws: `RemoteError`; `CancellationError` if the task is cancelled.
    func connection(
      to server: ValkeyAddress, listener: (@Sendable (RESPValue) -> Void)? = nil
    ) async throws -> RESPConnection {
      // Nodes of a cluster name others, which no setting has named.
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
      // A numeric address is looked for in the certificate as the address of the connection.
      let isNumeric = (try? SocketAddress(ipAddress: name, port: 0)) != nil
      return { try NIOSSLClientHandler(context: context, serverHostname: isNumeric ? nil : name) }
    }

    /// Says who uses the connection, and for what.
    private func introduce(_ connection: RESPConnection, _ server: ValkeyAddress) async throws {
      let password = try await readPassword()
      let (user, name) = (settings.user ?? "default", "blobcache")
      let credentials = password.map { ["AUTH", user, $0] } ?? []
      let greeting = try await connection.send([RESPCommand(["HELLO", "3"] + credentials + ["SETNAME", name])])[0]
      if case .error(let text) = greeting {
        // Before Redis 6 there is no HELLO, and some proxies have no version 3.
        guard text.hasPrefix("ERR") || text.hasPrefix("NOPROTO"), !ValkeyFailure.isFull(text) else {
          throw refusal(text, server)
        }
        if let password {
          let arguments = [settings.user, password].compactMap { $0 }
          try await expectNoError(RESPCommand(["AUTH"] + arguments), connection, server)
        }
        // The name is for lists of connections alone.
        _ = try await connection.send([RESPCommand("CLIENT", "SETNAME", name)])
      }
      if settings.database != 0 {
        try await expectNoError(RESPCommand("SELECT", "\(settings.database)"), connection, server)
      } else if password == nil {
        // HELLO lets strangers in, so what the server thinks of them is asked here.
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
