#if Remote
  public import BlobCache
  internal import Crypto
  internal import Locks
  internal import NIOHTTP1
  internal import TextFormats

  /// A server that stores objects by path, with GET, PUT and DELETE of HTTP/1.1.
  ///
  /// It supports `blobcache serve` (below `/v1/blobs`, with lists and times to live), nginx with WebDAV and
  /// `create_full_put_path on`, bazel-remote with `HTTPNames.sha256`, and other servers that accept any path.
  public final class HTTPEngine: RemoteEngine {
    public let settings: Settings
    let transport: HTTPTransport
    private let authorization = Lock<(value: String, end: ContinuousClock.Instant)?>(nil)

    /// Creates an engine without connecting to the server.
    ///
    /// - Parameter settings: The settings of the engine.
    /// - Throws: `RemoteSettingError` for invalid settings or files, and unencrypted HTTP to another machine.
    public init(_ settings: Settings) throws(RemoteSettingError) {
      try settings.check()
      self.settings = settings
      transport = try HTTPTransport(
        settings.endpoint, of: settings.endpoint.description, settings.security,
        HTTPTransport.Limits(connections: settings.connections, connectTime: settings.connectTime))
    }

    public var name: String { transport.engine }

    var isBlobCache: Bool { settings.isBlobCache }

    public func get(_ name: RemoteName) async throws -> RemoteObject? {
      let answer = try await send("GET", name)
      switch answer.status {
      case 200: return answer.object
      case 404, 410:
        try await answer.finish()
        return nil
      default: throw try await failure(answer, "GET", name)
      }
    }

    public func head(_ name: RemoteName) async throws -> Data? {
      let answer = try await send("GET", name, ["Range": "bytes=0-63"])
      switch answer.status {
      // A server without support for ranges sends the whole object.
      case 200, 206: return try await answer.bytes(upTo: 64)
      case 404, 410:
        try await answer.finish()
        return nil
      case 416:
        try await answer.finish()
        return Data()
      default: throw try await failure(answer, "GET", name)
      }
    }

    public func put(_ record: RemoteRecord, as name: RemoteName) async throws {
      var fields: HTTPHeaders = ["Content-Type": "application/octet-stream"]
      if isBlobCache {
        // The record contains its expiry. The server removes it one minute later, because clocks differ.
        let rest = max(record.expiry.seconds - Int64(Date().timeIntervalSince1970), 0)
        fields.add(name: "X-BlobCache-TTL", value: "\(min(rest, 1 << 40) + 60)")
      }
      let answer = try await send("PUT", name, fields, .record(record))
      guard (200..<300).contains(answer.status) else { throw try await failure(answer, "PUT", name) }
      try await answer.finish()
    }

    public func remove(_ name: RemoteName) async throws {
      let answer = try await send("DELETE", name)
      guard (200..<300).contains(answer.status) || [404, 410].contains(answer.status) else {
        throw try await failure(answer, "DELETE", name)
      }
      try await answer.finish()
    }

    public func close() async { await transport.close() }
  }

  // MARK: - Requests

  extension HTTPEngine {
    func send(
      _ method: String, _ name: RemoteName, _ fields: HTTPHeaders = [:], _ body: HTTPRequest.Body = .none
    ) async throws -> HTTPAnswer {
      let path =
        switch settings.names {
        case .path: PercentEncoding.encoded(name.string, keepsSlashes: true)
        case .sha256: Hexadecimal.text(SHA256.hash(data: Data(name.string.utf8)))
        }
      return try await send(
        HTTPRequest(method: method, target: "\(settings.endpoint.path)/\(path)", fields: fields, body: body))
    }

    /// Sends a request, and sends it again if the server does not know a credential whose file was replaced.
    func send(_ request: HTTPRequest) async throws -> HTTPAnswer {
      let used = try await authorizationValue()
      let answer = try await send(request, with: used)
      guard answer.status == 401, used != nil else { return answer }
      let kept = try await answer.keptInMemory(upTo: Self.longestFailure)
      authorization.withLock { if $0?.value == used { $0 = nil } }
      let fresh = try await authorizationValue()
      return fresh == used ? kept : try await send(request, with: fresh)
    }

    private static let longestFailure = 1 << 12

    private func send(_ request: HTTPRequest, with authorization: String?) async throws -> HTTPAnswer {
      var request = request
      request.fields.add(name: RemoteTier.senderField, value: RemoteTier.sender)
      if let authorization { request.fields.add(name: "Authorization", value: authorization) }
      return try await transport.send(request)
    }

    /// The value is cached for one minute, so that a replaced token is used soon.
    private func authorizationValue() async throws -> String? {
      let now = ContinuousClock.now
      if let known = authorization.withLock({ $0 }), now < known.end { return known.value }
      let value: String
      do {
        switch settings.credential {
        case .none: return nil
        case .basic(let user, let password):
          value = "Basic " + Data("\(user):\(try await password.text())".utf8).base64EncodedString()
        case .bearer(let token):
          let text = try await token.text()
          guard !text.hasControlCharacter else {
            throw RemoteError(
              .refused,
              "\(name): \(settings.credential.setting): it has a line end or another control character; remove it")
          }
          value = "Bearer \(text)"
        }
      } catch let error where error is RemoteError || error is CancellationError {
        throw error
      } catch {
        throw RemoteError(.refused, "\(name): \(settings.credential.setting): \(error)", cause: error)
      }
      authorization.withLock { $0 = (value, now + .seconds(60)) }
      return value
    }

    func failure(_ answer: HTTPAnswer, _ method: String, _ object: RemoteName) async throws -> RemoteError {
      let body = String(decoding: try await answer.bytes(upTo: Self.longestFailure), as: UTF8.self)
      var (kind, advice) = HTTPFailure.meaning(
        of: answer.status, retryAfter: answer.retryAfter, credential: settings.credential, method: method,
        location: answer.field("Location"))
      // By default, bazel-remote validates the content or the name of objects.
      if answer.status == 400, body.contains("SHA256"), settings.names == .path {
        (kind, advice) = (.refused, "the server names objects by their SHA-256; set names=sha256")
      } else if answer.status == 400, settings.names == .sha256, method == "PUT" {
        (kind, advice) = (.refused, "bazel-remote must be started with --disable_http_ac_validation")
      }
      // nginx completes the handshake without a certificate and refuses the request afterwards.
      if answer.status == 400, body.contains("SSL certificate") {
        (kind, advice) = (.refused, "the server takes no such certificate of a client; set cert and key")
      }
      if case .refused = kind { authorization.withLock { $0 = nil } }
      let isText = answer.field("Content-Type")?.hasPrefix("text/plain") == true
      let said = isText ? body.split(whereSeparator: \.isNewline).first.map { " (\($0.prefix(200)))" } : nil
      return RemoteError(
        kind, "\(name): \(method) of \(object) is answered \(answer.statusLine)\(said ?? ""): \(advice)")
    }
  }
#endif
