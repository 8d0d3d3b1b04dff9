#if Remote
  internal import AsyncHTTPClient
  internal import BlobCache
  internal import NIOCore
  internal import NIOFoundationCompat
  internal import NIOHTTP1
  internal import Synchronization

  /// Sends requests to one server over connections that it keeps. It tries nothing twice, and follows no redirects.
  final class HTTPTransport: Sendable {
    struct Limits: Sendable {
      var connections: Int
      var connectTime: Duration
    }

    let endpoint: HTTPEndpoint
    /// What messages call the engine.
    let engine: String
    private let client: HTTPClient
    private let limits: Limits
    private let isClosed = Atomic(false)

    /// - Throws: `RemoteSettingError` for files of `security` that cannot be used.
    init(
      _ endpoint: HTTPEndpoint, of engine: String, _ security: TransportSecurity, _ limits: Limits
    ) throws(RemoteSettingError) {
      self.endpoint = endpoint
      self.engine = engine
      self.limits = limits
      var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
      if endpoint.isEncrypted { configuration.tlsConfiguration = try security.configuration() }
      // One request at a time on a connection: a body that is given up ends it, and disturbs no other.
      configuration.httpVersion = .http1Only
      configuration.timeout.connect = TimeAmount(limits.connectTime)
      // The tier's breaker decides when an engine is tried again.
      configuration.connectionPool.retryConnectionEstablishment = false
      configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = limits.connections
      // Shorter than servers keep idle connections, so that none is closed under a request.
      configuration.connectionPool.idleTimeout = .seconds(10)
      client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    deinit {
      guard !isClosed.load(ordering: .relaxed) else { return }
      // Its error would be that it is shut down already.
      Task { [client] in try? await client.shutdown() }
    }

    /// Requests under way end with an error.
    func close() async {
      guard !isClosed.exchange(true, ordering: .relaxed) else { return }
      // A connection that closes with an error is closed too.
      try? await client.shutdown()
    }

    /// Sends a request, and waits until its answer begins.
    ///
    /// - Throws: `RemoteError`; what the pieces of the body throw; `CancellationError`.
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

  /// A request to the endpoint of a transport.
  struct HTTPRequest: Sendable {
    enum Body: Sendable {
      case none
      case bytes(Data)
      case record(RemoteRecord)
    }

    var method: String
    /// Path and query, with their escapes.
    var target: String
    var fields = HTTPHeaders()
    var body = Body.none
  }

  extension HTTPEndpoint {
    /// The URL without its path.
    var origin: String { "\(isEncrypted ? "https" : "http")://\(authority)" }
  }
#endif
