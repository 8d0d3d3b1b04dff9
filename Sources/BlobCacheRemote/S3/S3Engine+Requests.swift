#if Remote
  internal import BlobCache
  internal import BlobRecord
  internal import NIOHTTP1
  internal import Synchronization
  internal import TextFormats

  extension S3Engine {
    /// Sends a request, and sends it again if the server refuses credentials that were replaced, or the time.
    ///
    /// - Parameter fields: Header fields with lowercase names. Fields with the prefix `x-amz-` are signed.
    func send(
      _ method: String, _ object: RemoteName?, parameters: [(name: String, value: String)] = [],
      fields: [(name: String, value: String)] = [], body: HTTPRequest.Body = .none
    ) async throws -> HTTPAnswer {
      let used = try await credentials.credentials(for: name)
      let answer = try await send(method, object, parameters, fields, body, by: used)
      guard [400, 401, 403].contains(answer.status) else { return answer }
      let kept = try await answer.keptInMemory(upTo: Self.longestFailure)
      guard try await hasCorrected(read(kept), kept, used) else { return kept }
      return try await send(method, object, parameters, fields, body, by: try await credentials.credentials(for: name))
    }

    private static let longestFailure = 1 << 16

    /// Replaces refused credentials, or corrects the time. Returns `false` if this changes nothing.
    private func hasCorrected(
      _ failure: S3Failure, _ answer: HTTPAnswer, _ used: S3Credentials
    ) async throws -> Bool {
      if failure.concernsCredentials {
        credentials.forget(used)
        return try await credentials.credentials(for: name) != used
      }
      guard failure.concernsClock, let there = answer.field("Date").flatMap(HTTPDate.time) else { return false }
      let offset = there.seconds - settings.now().seconds
      return clockOffset.exchange(offset, ordering: .relaxed) != offset
    }

    private func send(
      _ method: String, _ object: RemoteName?, _ parameters: [(name: String, value: String)],
      _ fields: [(name: String, value: String)], _ body: HTTPRequest.Body, by credentials: S3Credentials
    ) async throws -> HTTPAnswer {
      let time = UTCTime(settings.now().advanced(bySeconds: clockOffset.load(ordering: .relaxed)))
      let endpoint = transport.endpoint
      let path = endpoint.path + (object.map { "/" + PercentEncoding.encoded($0.string, keepsSlashes: true) } ?? "")
      var fields = fields
      let payload = payloadDigest(body)
      fields += [("host", endpoint.authority), ("x-amz-content-sha256", payload), ("x-amz-date", time.text)]
      if let token = credentials.sessionToken { fields.append(("x-amz-security-token", token)) }
      let signed = SignatureV4.Request(
        method: method, path: path.isEmpty ? "/" : path, query: SignatureV4.query(parameters),
        fields: fields.filter { $0.name == "host" || $0.name.hasPrefix("x-amz-") }, payload: payload)
      fields.append(("authorization", signature.authorization(signed, by: credentials, at: time)))
      return try await transport.send(
        HTTPRequest(
          method: method, target: signed.path + (signed.query.isEmpty ? "" : "?\(signed.query)"),
          fields: HTTPHeaders(fields.map { ($0.name, $0.value) }), body: body))
    }

    /// The digest is omitted if TLS already protects the body, and for a stream, which would have to be read twice.
    private func payloadDigest(_ body: HTTPRequest.Body) -> String {
      switch body {
      case .none: SignatureV4.digest(of: Data())
      case .bytes(let bytes) where !transport.endpoint.isEncrypted: SignatureV4.digest(of: bytes)
      case .bytes, .record: SignatureV4.unsignedPayload
      }
    }

    func expectAbsence(_ answer: HTTPAnswer, _ method: String, _ object: RemoteName) async throws {
      let failure = try await read(answer)
      guard failure.status == 404, ["", "NoSuchKey", "NotFound"].contains(failure.code) else {
        throw try await error(failure, answer, method, object)
      }
    }

    func failure(_ answer: HTTPAnswer, _ method: String, _ object: RemoteName) async throws -> RemoteError {
      try await error(read(answer), answer, method, object)
    }

    private func read(_ answer: HTTPAnswer) async throws -> S3Failure {
      S3Failure(status: answer.status, body: try await answer.bytes(upTo: Self.longestFailure))
    }

    private func error(
      _ failure: S3Failure, _ answer: HTTPAnswer, _ method: String, _ object: RemoteName
    ) async throws -> RemoteError {
      let used = try await credentials.credentials(for: name)
      let settings = S3Failure.Settings(
        bucket: settings.bucket, region: settings.region, accessKey: used.accessKey, time: UTCTime(settings.now()).text)
      let (kind, advice) = failure.meaning(
        settings, method, serverTime: answer.field("Date"), bucketRegion: answer.field("x-amz-bucket-region"),
        retryAfter: answer.retryAfter)
      if case .refused = kind { credentials.forget(used) }
      let code = failure.code.isEmpty ? "" : " \(failure.code)"
      return RemoteError(kind, "\(name): \(method) of \(object) is answered \(answer.statusLine)\(code): \(advice)")
    }
  }
#endif
