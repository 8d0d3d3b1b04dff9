internal import BlobCache
internal import BlobRecord
internal import BlobStore

extension BlobResponder {
  func answer(_ route: ToolRoute, _ request: ServerRequest) async throws -> ServerResponse {
    switch (route.resource, request.method) {
    case (.content(_, .ofNothing), "GET"), (.content(_, .ofNothing), "HEAD"):
      // What has no bytes needs no store, and tools may expect it to be everywhere.
      return ServerResponse(status: 200, body: .text(""))
    case (.content(let key, let digest), "PUT"):
      // Its readers could not know yet whether it has the digest.
      guard ["afterCommit", nil].contains(request.fields["X-BlobCache-Visibility"]) else {
        throw Refusal(400, "what is named after its bytes is not seen before it is whole")
      }
      var request = request
      request.body = try request.body.checked(digest)
      return try await keep(key, request, for: route.tool)
    case (.entry(let key), "GET"), (.entry(let key), "HEAD"), (.content(let key, _), _):
      return try await fetch(key, request, for: route.tool)
    case (.entry(let key), "PUT"): return try await keep(key, request, for: route.tool)
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

  /// A hit, which renews what has a time to live of its tool.
  ///
  /// - Throws: 404 for a damaged blob as for none: the tool makes it anew.
  func fetch(_ key: BlobKey, _ request: ServerRequest, for tool: BuildTool) async throws -> ServerResponse {
    do {
      return try await get(
        key, request, isForHeadAlone: request.method == "HEAD", renews: configuration.toolLifetimes[tool] != nil)
    } catch let error as BlobStoreError where error.code == .damaged {
      logger.warning("a damaged blob is answered as none: \(error)")
      throw Refusal(404, "there is no such blob")
    }
  }

  /// Stores a blob, with the time to live of its tool unless the request has another.
  func keep(_ key: BlobKey, _ request: ServerRequest, for tool: BuildTool) async throws -> ServerResponse {
    var request = request
    if let lifetime = configuration.toolLifetimes[tool],
      try RequestedLifetime(request.fields, now: now) == .directoryDefault
    {
      let text = lifetime == .never ? "never" : "\(max(1, lifetime.components.seconds))"
      request.fields.append(RequestedLifetime.fieldName, text)
    }
    return try await put(key, request)
  }

  /// Begins a record's time to live anew, once an eighth of it has gone: so few hits write.
  func renew(_ key: BlobKey, _ header: RecordHeader) async {
    let age = now.seconds.subtractingReportingOverflow(header.lastUpdate.seconds).partialValue
    guard header.ttl > 0, age > 0, UInt64(age) > header.ttl / 8 else { return }
    do {
      try await cache.renew(key)
    } catch {
      // The blob lives a little shorter.
      logger.debug("a blob is not renewed: \(error)")
    }
  }
}
