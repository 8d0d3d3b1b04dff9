import BlobCacheServer
import Testing

/// Pages of other sites cannot access the server.
@Suite struct OriginTests {
  let server: TestServer

  init() throws {
    var answering = BlobResponder.Configuration()
    answering.hostNames = ["Cache.example"]
    server = try TestServer(answering)
  }

  @Test(arguments: [
    "localhost", "LOCALHOST:8723", "127.0.0.1", "127.0.0.1:8723", "127.9.9.9", "[::1]", "[::1]:8723", "a.localhost:1",
    "192.168.1.5:8723", "[2001:db8::1]:80", "cache.EXAMPLE:8723",
  ])
  func addressesAndOwnNamesAreAnswered(host: String) async throws {
    #expect(try await server.send("GET", "/healthz", ["Host": host]).status == 200)
  }

  @Test(arguments: [
    "example.com", "127.0.0.1.example.com", "localhost.example.com", "127.0.0", "127.0.0.1.", "[]", "[ab]", "",
    "evillocalhost", "localhost.", ".localhost.example.com", "127.0.0.256", "127.a.0.1", "::1", "a.cache.example",
    "[::1].example.com", "[::g]",
  ])
  func otherHostsAreNot(host: String) async throws {
    #expect(try await server.send("GET", "/healthz", ["Host": host]).status == 421)
  }

  /// By default, other host names are refused.
  @Test func namesMustBeGiven() async throws {
    let server = try TestServer()
    #expect(try await server.send("GET", "/healthz", ["Host": "example.com"]).status == 421)
    #expect(try await server.send("GET", "/healthz", ["Host": "localhost"]).status == 200)
    var answering = BlobResponder.Configuration()
    answering.hostNames = nil
    let open = try TestServer(answering)
    #expect(try await open.send("GET", "/healthz", ["Host": "example.com"]).status == 200)
  }

  @Test func severalHostsAreNone() async throws {
    #expect(try await server.send("GET", "/healthz", ["Host": "localhost", "host": "localhost"]).status == 400)
  }

  @Test(arguments: ["cross-site", "same-site", ""]) func anotherSiteChangesNothing(site: String) async throws {
    let fields: HeaderFields = ["Host": "localhost", "Sec-Fetch-Site": site]
    #expect(try await server.put("a", "x", fields).status == 403)
    #expect(try await server.send("POST", "/v1/blobs/a?lock", fields).status == 403)
    #expect(try await server.send("DELETE", "/v1/blobs/a", fields).status == 403)
    #expect(try await server.get("a", fields).status == 404)
  }

  @Test(arguments: ["same-origin", "none"]) func theOwnSiteDoes(site: String) async throws {
    let fields: HeaderFields = ["Host": "localhost:1", "Origin": "http://localhost:1", "Sec-Fetch-Site": site]
    #expect(try await server.put("a", "x", fields).status == 201)
  }

  @Test(arguments: ["http://example.com", "null", "http://localhost:2", "ftp://localhost:1"])
  func anotherOriginChangesNothing(origin: String) async throws {
    #expect(try await server.put("a", "x", ["Host": "localhost:1", "Origin": origin]).status == 403)
  }
}
