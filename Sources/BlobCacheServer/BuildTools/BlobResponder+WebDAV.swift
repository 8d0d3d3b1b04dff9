internal import BlobCache
internal import BlobRecord

// What RFC 4918 asks of a server whose collections are parts of names: there is one wherever a client looks.
extension BlobResponder {
  /// Bodies of PROPFIND name properties. All are answered, whatever they name.
  private static var largestQuery: Int { 64 << 10 }

  func properties(of key: BlobKey, _ request: ServerRequest) async throws -> ServerResponse {
    try await checkDepth(request)
    guard let header = try await cache.header(for: key) else { throw Refusal(404, "there is no such blob") }
    return multistatus(
      request,
      "<D:resourcetype/><D:getcontentlength>\(header.payloadSize)</D:getcontentlength>"
        + "<D:getetag>\(EntityTag(header).fieldValue)</D:getetag>"
        + "<D:getlastmodified>\(HTTPDate.text(header.lastUpdate))</D:getlastmodified>")
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

  /// - Throws: 403 for a depth other than 0: what lies below a collection is not known without a walk of the directory.
  private func checkDepth(_ request: ServerRequest) async throws {
    guard request.fields["Depth"] == "0" else { throw Refusal(403, "PROPFIND is answered for Depth: 0 alone") }
    guard try await request.body.collected(atMost: Self.largestQuery) != nil else {
      throw Refusal(413, "a query of properties has at most \(Self.largestQuery) bytes")
    }
  }

  private func multistatus(_ request: ServerRequest, _ properties: String) -> ServerResponse {
    // Names of tools, and escapes in their place, have nothing that XML reads as markup.
    let path = (place.isEmpty ? "" : "/" + place.dropLast()) + request.target.prefix { $0 != "?" }
    return ServerResponse(
      status: 207, fields: ["Content-Type": "application/xml; charset=utf-8", "Cache-Control": "no-store"],
      body: .text(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\"><D:response>"
          + "<D:href>\(path)</D:href><D:propstat><D:prop>\(properties)</D:prop>"
          + "<D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>\n"))
  }
}
