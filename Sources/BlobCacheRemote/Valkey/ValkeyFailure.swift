#if Remote
  internal import BlobCache
  internal import NIOCore
  internal import NIOPosix
  internal import NIOSSL
  internal import SystemPackage

  /// Maps error replies and connection errors to errors of the remote tier. Each message names the relevant setting.
  struct ValkeyFailure: Sendable {
    let engine: String
    let user: String
    let database: Int
    let isEncrypted: Bool

    func error(reply text: String, from server: ValkeyAddress) -> RemoteError {
      func error(_ kind: RemoteError.Kind, _ what: String) -> RemoteError {
        RemoteError(kind, "\(engine): \(server) \(what)")
      }
      let (code, said) = (text.prefix { $0 != " " }, Self.quoted(text))
      switch code {
      case "DENIED":
        return error(
          .refused, "is in protected mode and takes no other machine; set its requirepass and protected-mode (\(said))")
      case "NOAUTH": return error(.refused, "asks for a password; set user and password (\(said))")
      case "WRONGPASS":
        return error(.refused, "does not know the user \(user) with this password; set user and password")
      case "NOPERM":
        // Rights to keys are given by patterns, so another key may be allowed.
        let isOfKey = text.contains("access a key") || text.contains("access one of the keys")
        return error(
          isOfKey ? .forbidden : .refused,
          "lets the user \(user) not do this; change the user's rights by ACL SETUSER (\(said))")
      case "WRONGTYPE": return error(.damaged, "has a value of another program there, and no object (\(said))")
      case "LOADING", "BUSY", "TRYAGAIN", "MASTERDOWN": return error(.throttled(nil), "asks for a pause (\(said))")
      case "CLUSTERDOWN": return error(.failed, "says that its cluster is down; look at CLUSTER INFO (\(said))")
      case "READONLY":
        return error(.failed, "is a replica; set servers to the primary, or to nodes of a cluster (\(said))")
      case "OOM":
        return error(.failed, "has no memory left; set its maxmemory, and a maxmemory-policy that evicts (\(said))")
      default: break
      }
      if Self.isFull(text) { return error(.throttled(nil), "takes no more connections (\(said))") }
      if text.contains("DB index is out of range") || text.contains("SELECT is not allowed") {
        return error(.refused, "has no database \(database); set database (a cluster has 0 alone)")
      }
      if text.contains("without any password configured") {
        return error(.refused, "knows no password for the user \(user); set user and password")
      }
      if text.hasPrefix("ERR unknown command") || text.hasPrefix("ERR unknown subcommand")
        || text.hasPrefix("ERR syntax")
      {
        return error(.unsupported, "knows not the command (\(said))")
      }
      return error(.failed, "failed (\(said))")
    }

    static func isFull(_ text: String) -> Bool { text.contains("max number of clients") }

    /// Returns a Boolean value that indicates whether TLS ended without a shutdown, as after a restart of the server.
    private static func isEnd(_ error: any Error) -> Bool {
      switch error as? NIOSSLError {
      case .uncleanShutdown: true
      case .handshakeFailed(.sslError(let reasons)): reasons.contains(.eofDuringHandshake)
      default: false
      }
    }

    /// Removes the arguments that a server repeats in its message, because they may be secrets.
    private static func quoted(_ text: String) -> String {
      let end = text.firstRange(of: ", with args")?.lowerBound ?? text.endIndex
      return String(text[..<end].prefix(200))
    }

    private static func words(_ error: any Error) -> String {
      (error as? IOError).map { Errno(rawValue: $0.errnoCode).description } ?? "\(error)"
    }

    /// - Parameter isNew: A Boolean value that indicates whether the connection has not been used yet.
    func error(_ error: any Error, at server: ValkeyAddress, isNew: Bool) -> any Error {
      func failure(_ kind: RemoteError.Kind, _ what: String) -> RemoteError {
        RemoteError(kind, "\(engine): \(server) \(what)", cause: error)
      }
      switch error {
      case is RemoteError, is CancellationError: return error
      case let error as RESPErrorReply: return self.error(reply: error.text, from: server)
      case _ where Self.isEnd(error):
        guard isNew else { return failure(.unreachable, "broke off a connection") }
        return failure(.unreachable, "ended a connection that had just begun; set servers, or security")
      case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError:
        guard isNew else { return failure(.unreachable, "broke off a connection: \(error)") }
        return failure(
          .refused,
          "makes no TLS connection; set security (authority, certificate, key), serverName, the port, or the clock (\(error))"
        )
      case let error as RESPSyntaxError:
        guard isNew else { return failure(.failed, "\(error), which is no RESP") }
        let setting = isEncrypted ? "" : ", and security if it speaks TLS"
        return failure(.refused, "does not speak Valkey's protocol; set servers\(setting) (it \(error))")
      case ChannelError.connectTimeout(let time):
        return failure(
          .timedOut,
          "took no connection within \(time.nanoseconds / 1_000_000) ms; set servers, security or connectTime")
      case is ChannelError where isNew, is IOError where isNew:
        let setting = isEncrypted ? "servers" : "servers, or security if it speaks TLS"
        return failure(.unreachable, "ended a connection that had just begun; set \(setting)")
      case is ChannelError, is IOError: return failure(.unreachable, "broke off a connection")
      case let error as NIOConnectionError:
        let reasons =
          error.connectionErrors.map { Self.words($0.error) } + [error.dnsAError].compactMap { $0.map(Self.words) }
        return failure(.unreachable, "cannot be reached; set servers (\(reasons.joined(separator: "; ")))")
      default: return failure(.unreachable, "cannot be reached: \(error)")
      }
    }
  }

#endif
