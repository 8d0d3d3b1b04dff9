#if Remote
  internal import AsyncHTTPClient
  internal import BlobCache
  internal import BlobStore
  internal import NIOCore
  internal import NIOHTTP1
  internal import NIOPosix
  internal import NIOSSL
  internal import SystemPackage

  extension HTTPTransport {
    /// Returns a `RemoteError`, a `CancellationError` for a cancelled task, or an unchanged error of the store.
    func failure(_ error: any Error) -> any Error {
      if Task.isCancelled { return CancellationError() }
      switch error {
      case is RemoteError, is CancellationError, is BlobStoreError: return error
      case let error as HTTPClientError: return failure(error)
      case let error as NIOConnectionError: return failure(error)
      case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError, is NIOSSLCloseTimedOutError: return tlsFailure(error)
      case ChannelError.connectTimeout: return connectTimeout(error)
      case let error as IOError where Self.isUnconnected(error):
        return noConnection("\(Errno(rawValue: error.errnoCode))", error)
      case is IOError, is ChannelError, HTTPParserError.invalidEOFState, HTTPParserError.closedConnection:
        return RemoteError(.unreachable, "\(engine): the connection broke: \(error)", cause: error)
      case is HTTPParserError:
        return RemoteError(
          .failed, "\(engine): what answers speaks no HTTP/1.1 (\(error)); look at the port of the endpoint",
          cause: error)
      default: return RemoteError(.failed, "\(engine): \(error)", cause: error)
      }
    }

    private func failure(_ error: HTTPClientError) -> RemoteError {
      switch error {
      case .connectTimeout, .tlsHandshakeTimeout, .getConnectionFromPoolTimeout: return connectTimeout(error)
      case .remoteConnectionClosed, .uncleanShutdown:
        return RemoteError(.unreachable, "\(engine): the server closed the connection before its answer", cause: error)
      case .deadlineExceeded, .readTimeout, .writeTimeout:
        return RemoteError(.timedOut, "\(engine): no answer in time", cause: error)
      case .alreadyShutdown, .cancelled, .requestStreamCancelled:
        return RemoteError(.failed, "\(engine): the engine is closed", cause: error)
      // The cause is omitted, because it may contain header fields with secrets.
      default: return RemoteError(.failed, "\(engine): \(error.shortDescription)")
      }
    }

    private func connectTimeout(_ cause: any Error) -> RemoteError {
      RemoteError(
        .timedOut, "\(engine): no connection to \(endpoint.authority) in time; look at the endpoint, and at firewalls",
        cause: cause)
    }

    private func failure(_ error: NIOConnectionError) -> RemoteError {
      if error.connectionErrors.isEmpty, let why = error.dnsAError ?? error.dnsAAAAError {
        return RemoteError(
          .unreachable, "\(engine): the host \(endpoint.host) of the endpoint has no address: \(why)", cause: error)
      }
      let causes = error.connectionErrors.map(\.error)
      if causes.contains(where: { if case ChannelError.connectTimeout = $0 { true } else { false } }) {
        return connectTimeout(error)
      }
      return noConnection(causes.map { "\($0)" }.first ?? "no address", error)
    }

    private static func isUnconnected(_ error: IOError) -> Bool {
      [.connectionRefused, .noRouteToHost, .networkUnreachable].contains(Errno(rawValue: error.errnoCode))
    }

    private func noConnection(_ why: String, _ cause: any Error) -> RemoteError {
      RemoteError(
        .unreachable,
        "\(engine): no connection to \(endpoint.authority): \(why); look at the endpoint, and whether the server runs",
        cause: cause)
    }

    private func tlsFailure(_ error: any Error) -> RemoteError {
      let text = "\(error)"
      func refused(_ why: String) -> RemoteError { RemoteError(.refused, "\(engine): \(why)", cause: error) }
      if let error = error as? NIOSSLExtraError,
        [.failedToValidateHostname, .serverHostnameImpossibleToMatch].contains(error)
      {
        return refused("the server's certificate is for another host than \(endpoint.host); look at the endpoint")
      }
      if text.contains("CERTIFICATE_VERIFY_FAILED") || text.contains("unableToValidateCertificate") {
        return refused(
          "the server's certificate is not to be trusted: expired, or signed by none that is known; "
            + "set ca to the file of who signed it")
      }
      if text.contains("WRONG_VERSION_NUMBER") {
        return refused(
          "what answers at \(endpoint.authority) speaks no TLS; look at the port of the endpoint, or use http")
      }
      if text.contains("ALERT") || text.contains("CERTIFICATE_REQUIRED") || text.contains("BAD_CERTIFICATE") {
        return refused(
          "the server ended the handshake: it may want another client certificate; set cert and key: \(text)")
      }
      return RemoteError(.unreachable, "\(engine): the encrypted connection broke: \(text)", cause: error)
    }
  }
#endif
