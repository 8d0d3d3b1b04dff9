internal import BlobCache
internal import BlobRecord
internal import BlobStore

extension BlobResponder {
  private static var largestMessage: Int { 1 << 20 }
  private static var mostHashes: Int { 1000 }

  func keepArtifact(_ key: BlobKey, _ request: ServerRequest) async throws -> ServerResponse {
    let artifact = try TurboArtifact(request.fields)
    var kept = request
    kept.fields.replace("Content-Type", with: artifact.contentType)
    _ = try await keep(key, kept, for: .turbo)
    return .json("{\"urls\":[]}", status: 202)
  }

  func fetchArtifact(_ key: BlobKey, _ request: ServerRequest) async throws -> ServerResponse {
    var response = try await fetch(key, request, for: .turbo)
    let artifact = TurboArtifact(contentType: response.fields["Content-Type"] ?? "") ?? TurboArtifact()
    if let duration = artifact.duration { response.fields.append(TurboArtifact.durationField, "\(duration)") }
    if let tag = artifact.tag { response.fields.append(TurboArtifact.tagField, tag) }
    return response
  }

  func describeArtifacts(of team: String?, _ request: ServerRequest) async throws -> ServerResponse {
    let body = try await message(request)
    guard let query = try? JSONDecoder().decode(Query.self, from: body), query.hashes.count <= Self.mostHashes else {
      throw Refusal(400, "the body must be {\"hashes\": […]}, of at most \(Self.mostHashes)")
    }
    var found: [String: Description?] = [:]
    for hash in query.hashes {
      let key = try TurboArtifact.key(ofHash: hash, team: team)
      found[hash] = .some(try await describeIfReadable(key))
    }
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    return .json(String(decoding: try encoder.encode(found), as: UTF8.self))
  }

  /// A record that cannot be read is reported as absent, as a GET does, so that it does not fail the whole query.
  private func describeIfReadable(_ key: BlobKey) async throws -> Description? {
    do {
      return try await describe(key)
    } catch let error as BlobStoreError
      where [.damaged, .foreignFile].contains(error.code) || Self.isStillWritten(error)
    {
      logger.warning("a record that cannot be read is answered as none: \(error)")
      return nil
    }
  }

  private func describe(_ key: BlobKey) async throws -> Description? {
    guard let header = try await cache.header(for: key) else { return nil }
    let type = MediaType(extendedData: try await cache.extendedData(for: key))
    let artifact = TurboArtifact(contentType: type?.text ?? "") ?? TurboArtifact()
    return Description(size: header.payloadSize, taskDurationMs: artifact.duration ?? 0, tag: artifact.tag)
  }

  /// Discards a client's report of its hits, because the server counts its own.
  func takeEvents(_ request: ServerRequest) async throws -> ServerResponse {
    _ = try await message(request)
    return .json("{}")
  }

  private func message(_ request: ServerRequest) async throws -> Data {
    guard let body = try await request.body.collected(atMost: Self.largestMessage) else {
      throw Refusal(413, "a message has at most \(Self.largestMessage) bytes")
    }
    return body
  }

  private struct Query: Decodable {
    let hashes: [String]
  }

  private struct Description: Encodable {
    let size: UInt64
    let taskDurationMs: Int64
    let tag: String?
  }
}

extension ServerResponse {
  static func json(_ text: String, status: Int = 200) -> ServerResponse {
    ServerResponse(
      status: status, fields: ["Content-Type": "application/json", "Cache-Control": "no-store"], body: .text(text))
  }
}

extension Refusal {
  /// The refusal as JSON, in the form of Turborepo's API and also in `error`, which the client reads.
  var turboResponse: ServerResponse {
    let message = TurboError.Message(code: code, message: message)
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    // Encoding two strings cannot fail.
    let text = try? encoder.encode(TurboError(code: code, message: self.message, error: message))
    var response = ServerResponse.json(text.map { String(decoding: $0, as: UTF8.self) } ?? "{}", status: status)
    for field in fields.all { response.fields.append(field.name, field.value) }
    return response
  }

  private var code: String {
    switch status {
    case 400: "bad_request"
    case 401: "unauthorized"
    case 403: "forbidden"
    case 404: "not_found"
    default: "failed"
    }
  }

  private struct TurboError: Encodable {
    let code: String
    let message: String
    let error: Message

    struct Message: Encodable {
      let code: String
      let message: String
    }
  }
}
