#if Remote
  internal import AsyncHTTPClient
  internal import BlobCache
  internal import NIOCore
  internal import NIOFoundationCompat
  internal import NIOHTTP1
  internal import Synchronization

  final class HTTPTransport: Sendable {
    struct Limits: Sendable {
      var connections: Int
      var connectTime: Duration
    }

    let endpoint: HTTPEndpoint
    let engine: String
    private let client: HTTPClient
    private let limits: Limits
    private let isClosed = Atomic(false)

    init(
      _ endpoint: HTTPEndpoint, of engine: String, _ security: TransportSecurity, _ limits: Limits
    ) throws(RemoteSettingError) {
      self.endpoint = endpoint
      self.engine = engine
      self.limits = limits
      var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
      if endpoint.isEncrypted { configuration.tlsConfiguration = try security.configuration() }
      // In HTTP/1.1, an aborted body closes only its own connection and affects no other request.
      configuration.httpVersion = .http1Only
      configuration.timeout.connect = TimeAmount(limits.connectTime)
      // The remote tier's circuit breaker controls retries.
      configuration.connectionPool.retryConnectionEstablishment = false
      configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = limits.connections
      // The timeout is shorter than a typical server's, which otherwise could close a connection during a request.
      configuration.connectionPool.idleTimeout = .seconds(10)
      client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    deinit {
      guard !isClosed.load(ordering: .relaxed) else { return }
      // The only possible error means that the client is already shut down.
      Task { [client] in try? await client.shutdown() }
    }

    func close() async {
      guard !isClosed.exchange(true, ordering: .relaxed) else { return }
      try? await client.shutdown()
    }

    func send(_ request: HTTPRequest) async throws -> HTTPAnswer {
      var sent = HTTPClientRequest(url: endpoint.origin + request.target)
      sent.method = HTTPMethod(rawValue: request.method)
      sent.headers = request.fields
      sent.headers.replaceOrAdd(name: "Host", value: endpoint.authority)
      var upload: Upload?
      switch request.body {
      case .none: break
      case .bytes(let bytes): sent.body = .bytes(ByteBuffer(data: bytes))
      case .record(let record):
        if let bytes = record.bytes {
          sent.body = .bytes(ByteBuffer(data: bytes))
        } else {
          let pieces = Upload(record.pieces)
          upload = pieces
          sent.body = .stream(pieces, length: .known(Int64(record.byteCount)))
        }
      }
      do {
        let response = try await client.execute(sent, deadline: .distantFuture)
        return HTTPAnswer(response, from: self, to: upload)
      } catch {
        upload?.close()
        throw failure(error)
      }
    }
  }

  struct HTTPRequest: Sendable {
    enum Body: Sendable {
      case none
      case bytes(Data)
      case record(RemoteRecord)
    }

    var method: String
    var target: String
    var fields = HTTPHeaders()
    var body = Body.none
  }

  extension HTTPEndpoint {
    var origin: String { "\(isEncrypted ? "https" : "http")://\(authority)" }
  }
#endif
