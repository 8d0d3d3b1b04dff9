import BlobCache
import BlobCacheServer
import BlobRecord
import Foundation
import Testing

/// The requests that each token allows.
@Suite struct AccessTests {
  private static let secrets = ["read", "write", "admin", "all", "prefixed"]
  private let server: TestServer
  private let access: AccessControl

  init() throws {
    var tokens = AccessScope.allCases.map { AccessToken(name: $0.rawValue, secret: $0.rawValue, scopes: [$0]) }
    tokens.append(AccessToken(name: "pinning", secret: "pinning", scopes: [.write, .pin], keyPrefix: "a"))
    tokens.append(AccessToken(name: "all", secret: "all", scopes: Set(AccessScope.allCases)))
    tokens.append(
      AccessToken(name: "prefixed", secret: "prefixed", scopes: Set(AccessScope.allCases), keyPrefix: "ci/é"))
    access = AccessControl(tokens: tokens)
    var answering = BlobResponder.Configuration()
    answering.access = access
    server = try TestServer(answering)
  }

  private static let requests: [(method: String, target: String, scope: String, reaches: Bool)] = [
    ("GET", "/v1/blobs/a", "read", false), ("HEAD", "/v1/blobs/a", "read", false),
    ("PUT", "/v1/blobs/a", "write", false), ("DELETE", "/v1/blobs/a", "write", false),
    ("POST", "/v1/blobs/a?touch", "write", false), ("GET", "/v1/records/a", "read", false),
    ("GET", "/v1/blobs", "read", false), ("GET", "/v1/blobs?prefix=ci/", "read", false),
    ("GET", "/metrics", "read", false), ("GET", "/status", "read", false),
    ("GET", "/ui/", "read", false), ("GET", "/ui/record?key=ci/%C3%A9", "read", false),
    ("POST", "/ui/change", "write", false), ("POST", "/ui/collect", "admin", false),
    ("POST", "/ui/verify", "admin", false),
    ("GET", "/ccache/a", "read", false), ("HEAD", "/gradle/a", "read", false), ("PUT", "/ccache/a", "write", false),
    ("DELETE", "/sccache/a", "write", false), ("MKCOL", "/sccache/a/", "write", false),
    ("GET", "/turbo/v8/artifacts/status", "read", false),
    ("POST", "/turbo/v8/artifacts", "read", false), ("POST", "/turbo/v8/artifacts/events", "read", false),
    ("PUT", "/turbo/v8/artifacts/0a", "write", false),
    ("PUT", "/v1/blobs/ci%2F%C3%A9/x", "write", true), ("GET", "/v1/blobs/ci/%C3%A9", "read", true),
    ("GET", "/v1/records/ci/%C3%A9", "read", true), ("GET", "/v1/blobs?prefix=ci/%C3%A9x", "read", true),
    // The same letter in another encoding is another key.
    ("PUT", "/v1/blobs/ci/e%CC%81", "write", false), ("GET", "/v1/blobs?prefix=ci/e%CC%81", "read", false),
    // The last parameter counts.
    ("GET", "/v1/blobs?prefix=ci/%C3%A9&prefix=", "read", false),
    ("GET", "/v1/blobs?prefix=&prefix=ci/%C3%A9", "read", true),
  ]

  /// A cache that clients share could answer those whom the server refuses.
  @Test func answersToKnownCallersArePrivate() async throws {
    func sharing(_ server: TestServer, _ fields: HeaderFields) async throws -> String? {
      try await server.cache.store(Data("x".utf8), for: "a")
      return try await server.get("a", fields)["Cache-Control"]
    }
    #expect(try await sharing(server, ["Authorization": "Bearer read"]) == "private, max-age=600")
    #expect(try await sharing(TestServer(), [:]) == "max-age=600")
    var byUser = BlobResponder.Configuration()
    byUser.access = AccessControl(users: [7])
    let request = ServerRequest(method: "GET", target: "/v1/blobs/a")
    var ofUser = request
    ofUser.peerUser = 7
    let local = try TestServer(byUser)
    try await local.cache.store(Data("x".utf8), for: "a")
    #expect(await local.responder.respond(to: ofUser).fields["Cache-Control"] == "private, max-age=600")
    var byCertificate = BlobResponder.Configuration()
    byCertificate.transportIdentifiesClients = true
    #expect(try await sharing(TestServer(byCertificate), [:]) == "private, max-age=600")
  }

  @Test(arguments: requests) func eachRouteNeedsItsScope(
    method: String, target: String, scope: String, reaches: Bool
  ) async throws {
    let anonymous = try await server.send(method, target)
    #expect(anonymous.status == 401)
    #expect(anonymous["WWW-Authenticate"]?.hasPrefix("Bearer realm=") == true)
    for secret in Self.secrets {
      let status = try await server.send(method, target, ["Authorization": "Bearer \(secret)"]).status
      let isAllowed = secret == scope || secret == "all" || secret == "prefixed" && reaches
      #expect((status == 403) == !isAllowed, "\(secret): \(status)")
      #expect(status != 401)
    }
  }

  /// A writer must not be able to fill the directory with blobs that no collection may remove.
  @Test(arguments: [
    ("POST", "a?lock", "", ""), ("POST", "a?unlock&force", "", ""), ("PUT", "a", "X-BlobCache-TTL", "never"),
    ("PUT", "a", "X-BlobCache-Locks", "one"), ("PUT", "a", "x-blobcache-locks", "keepOrOne"),
  ])
  func aPinNeedsItsScope(method: String, target: String, field: String, value: String) async throws {
    try await server.cache.store(Data("x".utf8), for: "a")
    try await server.cache.lock("a")
    for (secret, isAllowed) in [("write", false), ("pin", false), ("pinning", true), ("all", true)] {
      var fields: HeaderFields = ["Authorization": "Bearer \(secret)"]
      if !field.isEmpty { fields.append(field, value) }
      let status = try await server.send(method, "/v1/blobs/\(target)", fields, .bytes(Data("y".utf8))).status
      #expect((status == 403) == !isAllowed, "\(secret): \(status)")
      // The token that may pin is for other keys.
      if secret == "pinning" {
        #expect(try await server.send(method, "/v1/blobs/\("b" + target.dropFirst())", fields).status == 403)
      }
    }
  }

  @Test(arguments: [("X-BlobCache-Locks", "none"), ("X-BlobCache-Locks", "keep"), ("X-BlobCache-TTL", "6h")])
  func aWriterSetsOtherFields(field: String, value: String) async throws {
    #expect(try await server.put("a", "x", ["Authorization": "Bearer write", field: value]).status == 201)
  }

  @Test(arguments: ["GET /healthz", "GET /readyz", "OPTIONS /v1/blobs/a", "HEAD /healthz"])
  func someNeedNone(request: String) async throws {
    let parts = request.split(separator: " ").map(String.init)
    #expect((200...204).contains(try await server.send(parts[0], parts[1]).status))
  }

  @Test(arguments: [
    "Bearer other", "Bearer all ", "Bearer  all", "bearer all", "BEARER all", "Bearer all, Bearer all", "Bearer",
    "Bearer ",
    "all", "Basic all", "Basic eDphbGw=", "Basic OmFsbA==", "basic eDphbGw=", "Basic eDpvdGhlcg==", "Basic /w==",
    "Digest all", "",
  ])
  func onlyAKnownTokenIsTaken(value: String) async throws {
    let isKnown = ["bearer all", "bearer  all", "bearer all ", "basic edphbgw=", "basic omfsba=="]
      .contains(value.lowercased())
    let answer = try await server.get("a", ["Authorization": value])
    #expect(answer.status == (isKnown ? 404 : 401))
    // An invalid header is reported even on a path that needs no token.
    #expect(try await server.send("GET", "/healthz", ["Authorization": value]).status == (isKnown ? 200 : 401))
  }

  @Test func twoTokensAreNone() async throws {
    let answer = try await server.get("a", ["Authorization": "Bearer all", "authorization": "Bearer all"])
    #expect(answer.status == 401)
  }

  @Test func aLackOfScopeIsNamed() async throws {
    let answer = try await server.put("a", "x", ["Authorization": "Bearer read"])
    #expect(answer.status == 403)
    #expect(answer["WWW-Authenticate"] == #"Bearer realm="blobcache", error="insufficient_scope", scope="write""#)
    #expect(try await server.cache.header(for: "a") == nil)
  }

  @Test func tokensCanBeReplaced() async throws {
    access.replaceTokens([AccessToken(name: "new", secret: "new", scopes: [.read])])
    #expect(try await server.get("a", ["Authorization": "Bearer all"]).status == 401)
    #expect(try await server.get("a", ["Authorization": "Bearer new"]).status == 404)
  }

  /// A token without a secret applies to requests without a token.
  @Test func someMayBeAllowedWithoutAToken() async throws {
    access.replaceTokens([
      AccessToken(name: "anyone", secret: nil, scopes: [.read], keyPrefix: "public/"),
      AccessToken(name: "ci", secret: "ci", scopes: [.write]),
    ])
    #expect(try await server.get("public/a").status == 404)
    #expect(try await server.get("a").status == 401)
    #expect(try await server.put("public/a", "x").status == 401)
    #expect(try await server.put("public/a", "x", ["Authorization": "Bearer ci"]).status == 201)
    #expect(try await server.get("public/a", ["Authorization": "Bearer ci"]).status == 403)
    #expect(try await server.get("public/a", ["Authorization": "Bearer "]).status == 401)
  }

  @Test func withoutTokensAllIsAllowed() async throws {
    let open = try TestServer()
    #expect(try await open.put("a", "x").status == 201)
    #expect(try await open.get("a", ["Authorization": "Bearer any"]).status == 200)
  }
}
