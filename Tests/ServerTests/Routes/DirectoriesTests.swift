import BlobCache
import BlobCacheServer
import BlobRecord
import Foundation
import Testing

/// Several directories, each below its name.
@Suite struct DirectoriesTests {
  private let servers: [TestServer]
  private let directories: ServedDirectories
  private let access: AccessControl

  init() throws {
    let access = AccessControl()
    self.access = access
    var answering = BlobResponder.Configuration()
    answering.access = access
    servers = try (0..<2).map { _ in try TestServer(answering) }
    directories = ServedDirectories([
      (name: "covers", responder: servers[0].responder), (name: "other-1.x", responder: servers[1].responder),
    ])
  }

  private func send(
    _ method: String, _ target: String, _ fields: HeaderFields = [:], _ body: MessageBody = .none
  ) async throws -> Answer {
    try await Answer(directories.respond(to: ServerRequest(method: method, target: target, fields: fields, body: body)))
  }

  @Test func eachNameLeadsToItsDirectory() async throws {
    #expect(try await send("PUT", "/covers/v1/blobs/a/b", [:], .bytes(Data("one".utf8))).status == 201)
    #expect(try await send("GET", "/other-1.x/v1/blobs/a/b").status == 404)
    #expect(try await servers[0].cache.contains("a/b"))
    #expect(try await send("GET", "/covers/v1/blobs/a/b").text == "one")
    #expect(try await send("GET", "/covers/v1/blobs?prefix=a").text.contains("\"key\":\"a/b\""))
    #expect(try await send("GET", "/covers/metrics").status == 200)
    let collection = try await send("PROPFIND", "/covers/sccache/", ["Depth": "0"])
    #expect(collection.text.contains("<D:href>/covers/sccache/</D:href>"))
  }

  @Test(arguments: [
    "/v1/blobs/a", "/", "", "/covers", "/covers?x=/", "/none/v1/blobs/a", "/Covers/v1/blobs/a", "covers/v1/blobs/a",
    "//covers/v1/blobs/a", "/covers%2Fv1/blobs/a", "/metrics", "/?/covers/v1/blobs/a",
    "http://localhost/none/v1/blobs", "ftp://localhost/covers/v1/blobs",
  ])
  func otherPathsLeadNowhere(target: String) async throws {
    #expect(try await send("GET", target).status == 404)
    #expect(try await send("HEAD", target).payload.isEmpty)
  }

  @Test func healthIsThatOfAll() async throws {
    for path in ["/healthz", "/readyz", "/readyz?x"] { #expect(try await send("GET", path).status == 200, "\(path)") }
    try await servers[1].cache.close()
    #expect(try await send("GET", "/healthz").status == 200)
    #expect(try await send("GET", "/readyz").status == 503)
  }

  /// A token's key prefix begins with a directory's name.
  @Test func aTokenCanBeForADirectory() async throws {
    access.replaceTokens([
      AccessToken(name: "all", secret: "all", scopes: [.read]),
      AccessToken(name: "one", secret: "one", scopes: [.read], keyPrefix: "covers/"),
      AccessToken(name: "part", secret: "part", scopes: [.read], keyPrefix: "covers/a"),
      AccessToken(name: "bare", secret: "bare", scopes: [.read], keyPrefix: "a"),
    ])
    let table: [(target: String, allowed: Set<String>)] = [
      ("/covers/v1/blobs/a", ["all", "one", "part"]), ("/covers/v1/blobs/b", ["all", "one"]),
      ("/covers/v1/blobs?prefix=ab", ["all", "one", "part"]), ("/covers/v1/blobs", ["all", "one"]),
      ("/covers/metrics", ["all", "one"]), ("/other-1.x/v1/blobs/a", ["all"]), ("/other-1.x/metrics", ["all"]),
    ]
    for (target, allowed) in table {
      for secret in ["all", "one", "part", "bare"] {
        let status = try await send("GET", target, ["Authorization": "Bearer \(secret)"]).status
        #expect((status != 403) == allowed.contains(secret), "\(target) \(secret): \(status)")
      }
    }
  }

  @Test(arguments: [
    ("a", true), ("A-b_c.1", true), ("", false), (".", false), ("..", false), ("a b", false), ("a/b", false),
    ("ä", false),
    ("healthz", false), ("readyz", false), ("a%", false), ("v1", true),
  ])
  func aNameIsAPartOfAnAddress(name: String, isName: Bool) {
    #expect(ServedDirectories.isName(name) == isName)
  }
}
