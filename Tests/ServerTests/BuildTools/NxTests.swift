import BlobCache
import BlobCacheServer
import Foundation
import TestSupport
import Testing

/// The API that Nx specifies for a cache of its users: https://nx.dev/recipes/running-tasks/self-hosted-caching
@Suite struct NxTests {
  private static let path = "/v1/cache/17435843958674350"

  private static func server() throws -> TestServer {
    var answering = BlobResponder.Configuration()
    answering.access = AccessControl(tokens: [
      AccessToken(name: "reader", secret: "r", scopes: [.read]),
      AccessToken(name: "writer", secret: "w", scopes: [.read, .write]),
    ])
    return try TestServer(answering)
  }

  private func put(
    _ server: TestServer, _ text: String, _ path: String = path, token: String = "w"
  ) async throws -> Answer {
    let fields: HeaderFields = [
      "Authorization": "Bearer \(token)", "Content-Type": "application/octet-stream",
      "Content-Length": "\(text.utf8.count)",
    ]
    return try await server.send("PUT", path, fields, .bytes(Data(text.utf8)))
  }

  private func get(_ server: TestServer, _ path: String = path, token: String = "r") async throws -> Answer {
    try await server.send("GET", path, ["Authorization": "Bearer \(token)"])
  }

  /// The client takes only 200 for a success.
  @Test func aResultIsStoredOnce() async throws {
    let server = try Self.server()
    #expect(try await get(server).status == 404)
    #expect(try await put(server, "tarball").status == 200)
    let answer = try await get(server)
    #expect(answer.status == 200)
    #expect(answer.text == "tarball")
    #expect(answer["Content-Type"] == "application/octet-stream")
    let second = try await put(server, "other")
    #expect(second.status == 409)
    #expect(second["Content-Type"] == "text/plain; charset=utf-8")
    #expect(try await get(server).text == "tarball")
  }

  /// A refusal is text, and a token for reading stores nothing.
  @Test func aReaderStoresNothing() async throws {
    let server = try Self.server()
    for (token, status) in [("r", 403), ("x", 401)] {
      let answer = try await put(server, "evil", token: token)
      #expect(answer.status == status)
      #expect(answer["Content-Type"] == "text/plain; charset=utf-8")
    }
    #expect(try await server.send("PUT", Self.path, [:], .bytes(Data())).status == 401)
    #expect(try await server.send("GET", Self.path).status == 401)
    #expect(try await get(server).status == 404)
  }

  /// The rule belongs to the key, so another route does not replace a result either.
  @Test func noRouteReplacesAResult() async throws {
    let server = try Self.server()
    let key = "/v1/blobs/nx/17435843958674350"
    #expect(try await put(server, "tarball", key).status == 201)
    #expect(try await put(server, "other", key).status == 409)
    #expect(try await put(server, "other").status == 409)
    #expect(try await get(server).text == "tarball")
    #expect(try await server.send("DELETE", key, ["Authorization": "Bearer w"]).status == 204)
    #expect(try await put(server, "other").status == 200)
    // Other keys are replaced as always.
    #expect(try await put(server, "one", "/v1/blobs/nxt").status == 201)
    #expect(try await put(server, "two", "/v1/blobs/nxt").status == 204)
  }

  @Test func anExpiredResultIsStoredAgain() async throws {
    let server = try Self.server()
    #expect(try await put(server, "one").status == 200)
    server.clock.advance(by: 601)
    #expect(try await put(server, "two").status == 200)
    #expect(try await get(server).text == "two")
  }

  /// A damaged record must not keep a good one away.
  @Test func aDamagedResultIsStoredAgain() async throws {
    let server = try TestServer {
      $0.store.packing = .off
      $0.memory = nil
    }
    #expect(try await put(server, "tarball").status == 200)
    try server.overwrite("nx/17435843958674350", at: 66, with: [0])
    #expect(try await get(server).status == 404)
    #expect(try await put(server, "tarball").status == 200)
    #expect(try await get(server).text == "tarball")
  }

  /// A condition of the client neither lifts the rule nor contradicts it.
  @Test(arguments: ["*", "\"other\""]) func aConditionDoesNotLiftTheRule(condition: String) async throws {
    let server = try TestServer()
    for status in [200, 409] {
      let fields: HeaderFields = ["If-None-Match": condition]
      #expect(try await server.send("PUT", Self.path, fields, .bytes(Data("x".utf8))).status == status)
    }
  }

  @Test(arguments: [
    ("/v1/cache/", 404), ("/v1/cache/a/b", 404), ("/v1/cache/..", 400), ("/v1/cache/a%2Fb", 400), ("/nx/a", 404),
    ("/v1/cache", 404), ("/v1/cache/a/", 404),
  ])
  func whatIsNoHashIsRefused(path: String, status: Int) async throws {
    #expect(try await get(TestServer(), path).status == status)
  }

  @Test func onlyItsMethodsAreKnown() async throws {
    let server = try TestServer()
    let answer = try await server.send("DELETE", Self.path)
    #expect(answer.status == 405)
    #expect(answer["Allow"] == "GET, HEAD, PUT, OPTIONS")
    _ = try await put(server, "tarball")
    #expect(try await server.send("GET", "/metrics").text.contains("{route=\"nx\",method=\"PUT\",status=\"200\"} 1\n"))
  }
}
