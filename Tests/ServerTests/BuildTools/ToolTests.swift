import BlobCache
import BlobCacheServer
import BlobRecord
import Foundation
import SystemPackage
import TestSupport
import Testing

/// The properties that all build tools share: Spec/Server.md, *Build tools*.
@Suite struct ToolTests {
  /// A path, and the key of a blob that is put there.
  struct Place: CustomStringConvertible {
    let path: String
    let key: String

    var description: String { path }

    init(_ path: String, _ key: String) { (self.path, self.key) = (path, key) }

    static let digest = String(repeating: "0a", count: 32)
    static let all = [
      Place("/bazel/ac/\(digest)", "bazel/ac/\(digest)"),
      Place("/bazel/team/x86/ac/\(digest)", "bazel/team/x86/ac/\(digest)"),
      Place("/ccache/ab/cdef0123M", "ccache/ab/cdef0123M"), Place("/ccache/abcdef0123M", "ccache/abcdef0123M"),
      Place("/ccache/ac/\(digest)", "ccache/ac/\(digest)"), Place("/sccache/.sccache_check", "sccache/.sccache_check"),
      Place("/sccache/project/0/a/0/\(digest)", "sccache/project/0/a/0/\(digest)"),
      Place("/gradle/%30123456789abcdef", "gradle/0123456789abcdef"),
      Place("/turbo/v8/artifacts/0123456789abcdef", "turbo/0123456789abcdef"),
      Place("/turbo/v8/artifacts/0123456789abcdef?teamId=team_a&slug=b", "turbo/team_a/0123456789abcdef"),
      Place("/turbo/v8/artifacts/0123456789abcdef?slug=b", "turbo/b/0123456789abcdef"),
    ]
  }

  let server: TestServer

  init() throws { server = try TestServer() }

  private func put(_ path: String, _ text: String = "product", _ fields: HeaderFields = [:]) async throws -> Answer {
    try await server.send("PUT", path, fields, .bytes(Data(text.utf8)))
  }

  @Test(arguments: Place.all) func aMissIsFollowedByAHit(place: Place) async throws {
    for method in ["GET", "HEAD"] { #expect(try await server.send(method, place.path).status == 404) }
    let isTurbo = place.key.hasPrefix("turbo/")
    #expect(try await put(place.path, "one").status == (isTurbo ? 202 : 201))
    #expect(try await put(place.path).status == (isTurbo ? 202 : 204))
    let hit = try await server.send("GET", place.path)
    #expect(hit.status == 200)
    #expect(hit.text == "product")
    let head = try await server.send("HEAD", place.path)
    #expect(head.status == 200)
    #expect(head.response.body.byteCount == 7)
    let tag = try #require(hit["ETag"])
    #expect(try await server.send("GET", place.path, ["If-None-Match": tag]).status == 304)
    #expect(try await put(place.path, "other", ["If-None-Match": "*"]).status == 412)
    let part = try await server.send("GET", place.path, ["Range": "bytes=1-3"])
    #expect(part.status == 206)
    #expect(part.text == "rod")
    #expect(try await server.cache.load(BlobKey(place.key))?.payload == Data("product".utf8))
  }

  /// The keys of each tool have its name as a prefix, so its blobs can be listed, collected and limited separately.
  @Test func eachToolsKeysBeginWithItsName() async throws {
    for place in Place.all { _ = try await put(place.path) }
    for tool in BuildTool.allCases {
      let list = try await server.send("GET", "/v1/blobs?prefix=\(tool.rawValue)/").text
      let keys = Place.all.map(\.key).filter { $0.hasPrefix(tool.rawValue + "/") }
      #expect(list.split(separator: "\n").count == keys.count)
      for key in keys { #expect(list.contains("\"key\":\"\(key)\"")) }
    }
  }

  /// A tool can build its products again, and others may need their room.
  @Test(arguments: Place.all) func aProductIsNotPinned(place: Place) async throws {
    let fields: HeaderFields = ["X-BlobCache-Locks": "one", "X-BlobCache-TTL": "never"]
    _ = try await server.send("PUT", place.path, fields, .bytes(Data("one".utf8)))
    let header = try #require(try await server.cache.header(for: BlobKey(place.key)))
    #expect(header.refCount == 0)
    #expect(header.ttl == 0)
  }

  @Test func requestsAreCountedByTool() async throws {
    _ = try await put("/ccache/a")
    for path in ["/ccache/a", "/ccache/b", "/bazel/ac/\(Place.digest)", "/bazel/cas/\(Place.digest)"] {
      _ = try await server.send("GET", path)
    }
    let text = try await server.send("GET", "/metrics").text
    for (labels, count) in [
      ("route=\"ccache\",method=\"GET\",status=\"200\"", 1), ("route=\"ccache\",method=\"GET\",status=\"404\"", 1),
      ("route=\"ccache\",method=\"PUT\",status=\"201\"", 1), ("route=\"bazel-ac\",method=\"GET\",status=\"404\"", 1),
      ("route=\"bazel-cas\",method=\"GET\",status=\"404\"", 1),
    ] {
      #expect(text.contains("\nblobcache_http_requests_total{\(labels)} \(count)\n"))
    }
  }

  @Test(arguments: [
    ("/bazel/ac/\(Place.digest)", "GET, HEAD, PUT, OPTIONS"),
    ("/bazel/cas/\(Place.digest)", "GET, HEAD, PUT, OPTIONS"),
    ("/ccache/ab/c", "GET, HEAD, PUT, DELETE, OPTIONS"), ("/gradle/ab", "GET, HEAD, PUT, DELETE, OPTIONS"),
    ("/sccache/a/b", "GET, HEAD, PUT, DELETE, PROPFIND, MKCOL, OPTIONS"),
    ("/sccache/a/", "PROPFIND, MKCOL, OPTIONS"), ("/sccache", "PROPFIND, MKCOL, OPTIONS"),
    ("/turbo/v8/artifacts/ab", "GET, HEAD, PUT, OPTIONS"), ("/turbo/v8/artifacts", "POST, OPTIONS"),
    ("/turbo/v8/artifacts/events", "POST, OPTIONS"), ("/turbo/v8/artifacts/status", "GET, HEAD, OPTIONS"),
  ])
  func anotherMethodIs405(path: String, allowed: String) async throws {
    let methods = ["GET", "HEAD", "PUT", "DELETE", "POST", "PATCH", "PROPFIND", "MKCOL"]
    for method in methods where !allowed.split(separator: ", ").contains(Substring(method)) {
      let answer = try await server.send(method, path)
      #expect(answer.status == 405, "\(method)")
      #expect(answer["Allow"] == allowed)
    }
    let options = try await server.send("OPTIONS", path)
    #expect(options.status == 204)
    #expect(options["Allow"] == allowed)
    // LOCK is not a method of any path, so its status is another one.
    #expect(try await server.send("LOCK", path).status == 501)
  }

  @Test(arguments: ["bazel/ac", "bazel/cas", "ccache", "sccache", "gradle", "turbo/v8/artifacts"])
  func aNameThatNoToolMakesIsRefused(prefix: String) async throws {
    let names = [
      "", "..", ".", "%2E%2E", "../../x", "a%2Fb", "a//b", "//", "%00", "a%0Ab", "a%20b", "%FF", "%", "%zz", "a\\b",
      "<script>", "%3Cscript%3E", "ä".addingPercentEncoding(withAllowedCharacters: [])!,
      String(repeating: "a", count: 256), String(repeating: "a", count: 10_000),
    ]
    for name in names {
      let path = "/\(prefix)/\(name)"
      let status = try await put(path).status
      #expect(
        [400, 404].contains(status) || status == 405 && name.isEmpty && prefix == "sccache", "\(path): \(status)")
      #expect(try await server.send("GET", path).status == status)
    }
    #expect(try await server.cache.usage().records == 0)
  }

  @Test(arguments: [
    "/bazel", "/bazel/", "/bazel/ac", "/bazel/xx/\(Place.digest)", "/bazel/ac/\(Place.digest)/", "/ccache", "/gradle/",
    "/gradle/a/", "/turbo", "/turbo/v8", "/turbo/v2/user", "/turbo/v8/artifacts/", "/turbo/v8/artifacts/ab/cd",
    "/turbo/v9/artifacts/ab", "/bazelx/ac/\(Place.digest)", "/Bazel/ac/\(Place.digest)", "/npm/a",
  ])
  func aPathWithoutAMeaningIs404(path: String) async throws {
    for method in ["GET", "PUT"] { #expect(try await server.send(method, path).status == 404) }
  }

  /// A damaged blob is a miss instead of an error, because the tool produces the blob again.
  @Test(arguments: Place.all) func aDamagedBlobIsAMiss(place: Place) async throws {
    let server = try TestServer {
      $0.store.packing = .off
      $0.memory = nil
    }
    _ = try await server.send("PUT", place.path, [:], .bytes(Data("product".utf8)))
    let files = try #require(FileManager.default.enumerator(atPath: server.root.string)).compactMap { $0 as? String }
    let name = try #require(files.first { $0.hasPrefix("\($0.prefix(2))/") && !$0.hasPrefix(".") })
    let file = try FileHandle(forUpdating: URL(filePath: server.root.appending(name).string))
    try file.seek(toOffset: 66)
    try file.write(contentsOf: Data("X".utf8))
    try file.close()
    #expect(try await server.send("GET", place.path).status == 404)
    #expect(try await server.send("GET", "/v1/blobs/" + place.key).status == 500)
  }

  @Test(arguments: Place.all) func aServerForReadingAnswersHits(place: Place) async throws {
    var answering = BlobResponder.Configuration()
    answering.isReadOnly = true
    let server = try TestServer(answering)
    try await server.cache.store(Data("product".utf8), for: BlobKey(place.key))
    #expect(try await server.send("GET", place.path).text == "product")
    #expect(try await server.send("PUT", place.path, [:], .bytes(Data())).status == 403)
  }
}

// MARK: - Tokens

extension ToolTests {
  @Test(arguments: [
    ("GET", "/sccache/project/a", 404), ("PUT", "/sccache/project/a", 201), ("PROPFIND", "/sccache/project/", 207),
    ("PROPFIND", "/sccache/project/x86/", 207), ("PROPFIND", "/sccache/other/", 403), ("PUT", "/sccache/other/a", 403),
    ("PUT", "/sccache/project", 403), ("GET", "/ccache/project/a", 403),
  ])
  func aTokenIsForABeginningOfKeys(method: String, path: String, status: Int) async throws {
    var answering = BlobResponder.Configuration()
    answering.access = AccessControl(tokens: [
      AccessToken(name: "ci", secret: "x", scopes: [.read, .write], keyPrefix: "sccache/project/")
    ])
    let server = try TestServer(answering)
    let fields: HeaderFields = ["Authorization": "Bearer x", "Depth": "0", "Content-Length": "0"]
    let answer = try await server.send(method, path, fields)
    #expect(answer.status == status)
    // Gradle can only send the token as the password of `user`.
    let basic = try await server.send("GET", "/sccache/project/b", ["Authorization": "Basic dXNlcjp4"])
    #expect(basic.status == 404)
  }

  @Test(arguments: [("team_a", 200), ("team_b", 403)]) func aTokenIsForATeam(team: String, status: Int) async throws {
    var answering = BlobResponder.Configuration()
    answering.access = AccessControl(tokens: [
      AccessToken(name: "ci", secret: "x", scopes: [.read], keyPrefix: "turbo/team_a/")
    ])
    let server = try TestServer(answering)
    let path = "/turbo/v8/artifacts/status?teamId=\(team)"
    let answer = try await server.send("GET", path, ["Authorization": "Bearer x"])
    #expect(answer.status == status)
    #expect(answer["Content-Type"] == "application/json")
  }
}

// MARK: - Time to live

extension ToolTests {
  private func server(_ lifetime: Duration) throws -> TestServer {
    var answering = BlobResponder.Configuration()
    answering.toolLifetimes = [.ccache: lifetime]
    return try TestServer(answering)
  }

  @Test(arguments: [(Duration.seconds(800), "800"), (.milliseconds(1), "1"), (.never, "never")])
  func aToolHasATimeToLiveOfItsOwn(lifetime: Duration, text: String) async throws {
    let server = try server(lifetime)
    for path in ["/ccache/a", "/gradle/a"] { _ = try await server.send("PUT", path, [:], .bytes(Data("x".utf8))) }
    #expect(try await server.send("GET", "/ccache/a")["X-BlobCache-TTL"] == text)
    #expect(try await server.send("GET", "/gradle/a")["X-BlobCache-TTL"] == "0")
    _ = try await server.send("PUT", "/ccache/a", ["Cache-Control": "max-age=90"], .bytes(Data("x".utf8)))
    #expect(try await server.send("GET", "/ccache/a")["X-BlobCache-TTL"] == "90")
  }

  @Test(arguments: [10, 300_000]) func hitsRenewIt(byteCount: Int) async throws {
    let server = try server(.seconds(800))
    let payload = Data(repeating: 7, count: byteCount)
    for path in ["/ccache/a", "/ccache/b"] {
      _ = try await server.send("PUT", path, [:], Pieces(pieces: [payload]).body)
    }
    // The elapsed time is too short for a touch.
    server.clock.advance(by: 100)
    for path in ["/ccache/a", "/ccache/b"] { _ = try await server.send("GET", path) }
    #expect(try await server.send("HEAD", "/ccache/a")["Age"] == "100")
    for _ in 0..<4 {
      server.clock.advance(by: 500)
      #expect(try await server.send("GET", "/ccache/a").payload == payload)
      #expect(try await server.send("HEAD", "/ccache/a")["Age"] == "0")
    }
    // HEAD requests do not renew a blob.
    #expect(try await server.send("HEAD", "/ccache/b").status == 404)
    server.clock.advance(by: 801)
    #expect(try await server.send("GET", "/ccache/a").status == 404)
  }
}
