import BlobCache
import BlobCacheServer
import BlobRecord
import Foundation
import TestSupport
import Testing

/// What a key demands of its blob, by whatever route or program the blob arrives.
@Suite struct KeyRuleTests {
  private static func digest(_ data: Data) -> String {
    SHA256Digest.digest(of: data.bytes).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
  }

  private static let good = Data("good".utf8)
  private static let evil = Data("evil".utf8)

  private static func checks(_ server: TestServer) async throws -> Int {
    let text = try await server.send("GET", "/metrics").text
    let line = text.split(separator: "\n").first { $0.hasPrefix("blobcache_http_content_checks_total{") }
    return try #require(line.flatMap { Int($0.split(separator: " ")[1]) })
  }

  // MARK: PUT

  /// The digest is compared on each route that reaches the key, and with each form of a body.
  @Test(arguments: ["bazel/cas/", "bazel/instance/cas/", "bazel/a/b/cas/"])
  func contentIsCheckedOnEachRoute(place: String) async throws {
    let server = try TestServer()
    let key = place + Self.digest(Self.good)
    let path = "/v1/blobs/" + key
    for body in [MessageBody.bytes(Self.evil), Pieces(pieces: [Self.evil]).body, .bytes(Data())] {
      let answer = try await server.send("PUT", path, [:], body)
      #expect(answer.status == 400)
    }
    #expect(try await server.send("GET", "/" + key).status == 404)
    let early: HeaderFields = ["X-BlobCache-Visibility": "whileWriting"]
    #expect(try await server.send("PUT", path, early, Pieces(pieces: [Self.good]).body).status == 400)
    #expect(try await server.send("PUT", path, [:], Pieces(pieces: [Self.good]).body).status == 201)
    #expect(try await server.send("GET", "/" + key).payload == Self.good)
    #expect(try server.temporaryFiles() == [])
  }

  /// Keys that only resemble content have no rule.
  @Test(arguments: ["bazel/ac/", "gradle/cas/", "cas/", "bazel/cas/x", "bazel/"])
  func otherKeysTakeAnyBytes(place: String) async throws {
    let server = try TestServer()
    let key = place + Self.digest(Self.good)
    #expect(try await server.put(key, "evil").status == 201)
    #expect(try await server.get(key).text == "evil")
  }

  /// A content type of another route must not become a signature that no client of Turborepo could have sent.
  @Test(
    arguments: [
      ("application/vnd.turborepo.artifact; duration=12; tag=\"YWJj\"", 201, "YWJj"),
      ("application/octet-stream", 201, nil), ("text/plain", 400, nil), ("text/plain; tag=YWJj", 400, nil),
      ("application/vnd.turborepo.artifact; tag=\"a,b\"", 400, nil),
      ("application/vnd.turborepo.artifact; duration=-1", 400, nil),
      ("application/vnd.turborepo.artifact; tag=\"\(String(repeating: "A", count: 601))\"", 400, nil),
    ] as [(String, Int, String?)])
  func aTypeOfAnArtifactIsCheckedOnEachRoute(type: String, status: Int, tag: String?) async throws {
    let server = try TestServer()
    #expect(try await server.put("turbo/team/0a", "tarball", ["Content-Type": type]).status == status)
    let answer = try await server.send("GET", "/turbo/v8/artifacts/0a?teamId=team")
    #expect(answer.status == (status == 201 ? 200 : 404))
    #expect(answer["x-artifact-tag"] == tag)
  }

  /// A program that uses the directory can store any type.
  @Test func aTypeThatIsNoArtifactsIsNoSignature() async throws {
    let server = try TestServer()
    let type = Data("text/plain; tag=evil; duration=5".utf8)
    try await server.cache.store(Self.evil, for: "turbo/0a", extendedData: type)
    let answer = try await server.send("GET", "/turbo/v8/artifacts/0a")
    #expect(answer.status == 200)
    #expect(answer["x-artifact-tag"] == nil)
    #expect(answer["x-artifact-duration"] == nil)
    let query = try await server.send("POST", "/turbo/v8/artifacts", [:], .bytes(Data("{\"hashes\":[\"0a\"]}".utf8)))
    #expect(query.text == "{\"0a\":{\"size\":4,\"taskDurationMs\":0}}")
  }

  // MARK: GET

  /// Another program stores the record, in a pack or in its own file, and below or above the limit of a whole load.
  @Test(arguments: [4, 100_000], [BlobStore.Packing.off, .upTo(8192)])
  func contentThatCameOtherwiseIsHashed(count: Int, packing: BlobStore.Packing) async throws {
    let server = try TestServer { $0.store.packing = packing }
    let payload = Data(repeating: 1, count: count)
    let key = BlobKey("bazel/cas/" + Self.digest(payload))
    try await server.cache.store(Data(repeating: 2, count: count), for: key)
    for method in ["GET", "HEAD"] {
      #expect(try await server.send(method, "/" + key.string).status == 404)
      #expect(try await server.send(method, "/v1/blobs/" + key.string).status == 500)
    }
    #expect(try await server.send("GET", "/" + key.string, ["Range": "bytes=0-1"]).status == 404)
    // The result for an unchanged record is remembered.
    #expect(try await Self.checks(server) == 1)
    try await server.cache.store(payload, for: key)
    for _ in 0..<3 { #expect(try await server.send("GET", "/" + key.string).payload == payload) }
    #expect(try await server.send("HEAD", "/" + key.string).status == 200)
    #expect(try await Self.checks(server) == 2)
    try await server.cache.store(Data(repeating: 3, count: count), for: key)
    #expect(try await server.send("GET", "/" + key.string).status == 404)
    #expect(try await Self.checks(server) == 3)
  }

  /// A touch changes the header alone, so the payload is not hashed again.
  @Test func aUseDoesNotMakeContentUnknown() async throws {
    let server = try TestServer()
    let key = "bazel/cas/" + Self.digest(Self.good)
    #expect(try await server.put(key, "good").status == 201)
    for _ in 0..<3 {
      #expect(try await server.send("GET", "/" + key).status == 200)
      server.clock.advance(by: 300)
      #expect(try await server.send("POST", "/v1/blobs/\(key)?touch").status == 204)
    }
    #expect(try await Self.checks(server) == 1)
  }

  /// Content above 4 MiB is hashed while it is sent, and its last bytes only follow if the digest is right.
  @Test func largeContentBreaksOffBeforeItsEnd() async throws {
    let server = try TestServer { $0.memory = nil }
    let payload = Data(repeating: 1, count: 4 << 20 + 1)
    let key = BlobKey("bazel/cas/" + Self.digest(payload))
    try await server.cache.store(Data(repeating: 2, count: payload.count), for: key)
    let request = ServerRequest(method: "GET", target: "/" + key.string)
    let response = await server.responder.respond(to: request)
    #expect(response.status == 200)
    guard case .stream(let byteCount, let pieces) = response.body else { throw NoStream() }
    var sent = 0
    await #expect(throws: (any Error).self) { for try await piece in pieces { sent += piece.count } }
    #expect(byteCount.map { sent < $0 } == true)
    // The result is known for the next request.
    #expect(try await server.send("GET", "/" + key.string).status == 404)
    #expect(try await Self.checks(server) == 1)
    try await server.cache.store(payload, for: key)
    for _ in 0..<2 { #expect(try await server.send("GET", "/" + key.string).payload == payload) }
    #expect(try await Self.checks(server) == 2)
  }

  private struct NoStream: Error {}

  /// Parts and HEAD of large content show nothing of the rest, so all of it is hashed first.
  @Test(arguments: ["GET", "HEAD"]) func partsOfLargeContentAreHashedFirst(method: String) async throws {
    let server = try TestServer { $0.memory = nil }
    let payload = Data(repeating: 1, count: 4 << 20 + 1)
    let path = "/bazel/cas/" + Self.digest(payload)
    try await server.cache.store(Data(count: payload.count), for: BlobKey(String(path.dropFirst())))
    #expect(try await server.send(method, path, ["Range": "bytes=0-9"]).status == 404)
  }

  /// Nobody knows the digest of content that another program is still writing.
  @Test func contentIsNotSeenBeforeItIsWhole() async throws {
    let server = try TestServer()
    let key = BlobKey("bazel/cas/" + Self.digest(Self.good))
    let writer = try await server.cache.openWriter(for: key, visibility: .whileWriting)
    try await writer.append(Data("go".utf8))
    for path in ["/", "/v1/blobs/"] { #expect(try await server.send("GET", path + key.string).status == 404) }
    try await writer.append(Data("od".utf8))
    try await writer.commit()
    #expect(try await server.send("GET", "/" + key.string).payload == Self.good)
  }

  /// Whoever may write to a bucket could put anything under a name.
  @Test func contentOfTheRemoteTierIsHashed() async throws {
    let objects = RemoteObjects()
    let writer = try TestServer { $0.remote = objects.tier }
    let reader = try TestServer { $0.remote = objects.tier }
    let names = [Self.good, Self.evil].map { BlobKey("bazel/cas/" + Self.digest($0)) }
    for name in names { try await writer.cache.store(Self.good, for: name) }
    #expect(try await reader.send("GET", "/" + names[0].string).payload == Self.good)
    #expect(try await reader.send("GET", "/" + names[1].string).status == 404)
  }
}
