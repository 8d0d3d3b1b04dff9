internal import BlobCache
internal import BlobRecord
internal import BlobStore

extension BlobResponder {
  func answer(_ route: ToolRoute, _ request: ServerRequest) async throws -> ServerResponse {
    switch (route.resource, request.method) {
    case (.content(_, .ofNothing), "GET"), (.content(_, .ofNothing), "HEAD"):
      // Empty content needs no store, and tools may expect it on every server.
      return ServerResponse(status: 200, body: .text(""))
    case (.entry(let key), "PUT") where route.tool == .nx:
      _ = try await keep(key, request, for: .nx)
      return .line(200, "stored")
    case (.entry(let key), "PUT"), (.content(let key, _), "PUT"):
      return try await keep(key, request, for: route.tool)
    case (.entry(let key), "GET"), (.entry(let key), "HEAD"), (.content(let key, _), _):
      return try await fetch(key, request, for: route.tool)
    case (.entry(let key), "DELETE"): return try await remove(key, request)
    case (.entry(let key), "PROPFIND"): return try await properties(of: key, request)
    case (.collection, "PROPFIND"): return try await collectionProperties(request)
    case (.entry, _), (.collection, _): return try await makeCollection(request)
    case (.artifact(let key), "PUT"): return try await keepArtifact(key, request)
    case (.artifact(let key), _): return try await fetchArtifact(key, request)
    case (.artifactQuery(let team), _): return try await describeArtifacts(of: team, request)
    case (.events, _): return try await takeEvents(request)
    case (.status, _): return .json("{\"status\":\"enabled\"}")
    }
  }

  /// A damaged blob is answered with 404, because the tool then builds it again. So is content with another digest.
  func fetch(_ key: BlobKey, _ request: ServerRequest, for tool: BuildTool) async throws -> ServerResponse {
    do {
      return try await get(
        key, request, isForHeadAlone: request.method == "HEAD", renews: configuration.toolLifetimes[tool] != nil)
    } catch let error as BlobStoreError where error.code == .damaged {
      logger.warning("a damaged blob is answered as none: \(error)")
      // A record that is never replaced would remain damaged. If the removal fails, so does the tool's next PUT.
      if KeyRule(key) == .unchanging, !configuration.isReadOnly { _ = try? await cache.remove(key) }
    } catch let error as WrongContent {
      logger.warning("content that has another SHA-256 than its name is answered as none: \(error.key)")
    }
    throw Refusal(404, "there is no such blob")
  }

  /// Stores a tool's product, which others may need room for, and which the tool can build again. Therefore, it is
  /// neither locked nor kept forever, whatever the request asks for.
  func keep(_ key: BlobKey, _ request: ServerRequest, for tool: BuildTool) async throws -> ServerResponse {
    var request = request
    StoreOrder.removePins(from: &request.fields)
    if let lifetime = configuration.toolLifetimes[tool],
      try RequestedLifetime(request.fields, now: now) == .directoryDefault
    {
      let text = lifetime == .never ? "never" : "\(max(1, lifetime.components.seconds))"
      request.fields.append(RequestedLifetime.fieldName, text)
    }
    return try await put(key, request)
  }

  /// Restarts a record's time to live after an eighth of it has passed, so that only few hits write.
  func renew(_ key: BlobKey, _ header: RecordHeader) async {
    let age = now.seconds.subtractingReportingOverflow(header.lastUpdate.seconds).partialValue
    guard header.ttl > 0, age > 0, UInt64(age) > header.ttl / 8 else { return }
    do {
      try await cache.renew(key)
    } catch {
      // Without the renewal, the blob only expires a little earlier.
      logger.debug("a blob is not renewed: \(error)")
    }
  }
}

// RFC 4918 for a server whose collections are key prefixes: a collection exists at every path.
extension BlobResponder {
  /// The maximum size of a property query, whose content is ignored: each response has all properties.
  private static var largestQuery: Int { 64 << 10 }

  func properties(of key: BlobKey, _ request: ServerRequest) async throws -> ServerResponse {
    try await checkDepth(request)
    guard let header = try await cache.header(for: key) else { throw Refusal(404, "there is no such blob") }
    return multistatus(
      request,
      "<D:resourcetype/><D:getcontentlength>\(header.payloadSize)</D:getcontentlength>"
        + "<D:getetag>\(EntityTag(header).fieldValue)</D:getetag>"
        + "<D:getlastmodified>\(HTTPDate.text(min(header.lastUpdate, now)))</D:getlastmodified>")
  }

  func collectionProperties(_ request: ServerRequest) async throws -> ServerResponse {
    try await checkDepth(request)
    return multistatus(
      request,
      "<D:resourcetype><D:collection/></D:resourcetype><D:getlastmodified>\(HTTPDate.text(now))</D:getlastmodified>")
  }

  func makeCollection(_ request: ServerRequest) async throws -> ServerResponse {
    guard try await request.body.collected(atMost: 0) != nil else {
      throw Refusal(415, "a collection is made without a body")
    }
    return ServerResponse(status: 201)
  }

  /// Listing a collection would require a scan of the directory, so only depth 0 is supported.
  private func checkDepth(_ request: ServerRequest) async throws {
    guard request.fields["Depth"] == "0" else { throw Refusal(403, "PROPFIND is answered for Depth: 0 alone") }
    guard try await request.body.collected(atMost: Self.largestQuery) != nil else {
      throw Refusal(413, "a query of properties has at most \(Self.largestQuery) bytes")
    }
  }

  private func multistatus(_ request: ServerRequest, _ properties: String) -> ServerResponse {
    // Tool names and percent escapes contain no XML markup.
    let path = (place.isEmpty ? "" : "/" + place.dropLast()) + request.target.prefix { $0 != "?" }
    return ServerResponse(
      status: 207, fields: ["Content-Type": "application/xml; charset=utf-8", "Cache-Control": "no-store"],
      body: .text(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\"><D:response>"
          + "<D:href>\(path)</D:href><D:propstat><D:prop>\(properties)</D:prop>"
          + "<D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>\n"))
  }
}
