import BlobCacheServer
import Foundation
import TestSupport
import Testing

@Suite struct ChangeTests {
  let server: TestServer

  init() throws { server = try TestServer() }

  @Test func aRemovedBlobIsGone() async throws {
    _ = try await server.put("a", "x")
    #expect(try await server.send("DELETE", "/v1/blobs/a").status == 204)
    #expect(try await server.send("DELETE", "/v1/blobs/a").status == 404)
    #expect(try await server.get("a").status == 404)
  }

  @Test func locksAreAddedAndTakenOff() async throws {
    _ = try await server.put("a", "x")
    for _ in 0..<3 { #expect(try await server.send("POST", "/v1/blobs/a?lock").status == 204) }
    #expect(try await server.send("HEAD", "/v1/blobs/a")["X-BlobCache-Locks"] == "3")
    #expect(try await server.send("POST", "/v1/blobs/a?unlock").status == 204)
    #expect(try await server.send("HEAD", "/v1/blobs/a")["X-BlobCache-Locks"] == "2")
    #expect(try await server.send("POST", "/v1/blobs/a?unlock&force").status == 204)
    #expect(try await server.send("POST", "/v1/blobs/a?unlock").status == 409)
  }

  @Test func aTouchBeginsTheTimeAnew() async throws {
    _ = try await server.put("a", "x")
    server.clock.advance(by: 500)
    #expect(try await server.send("POST", "/v1/blobs/a?touch").status == 204)
    server.clock.advance(by: 500)
    #expect(try await server.send("HEAD", "/v1/blobs/a").status == 200)
  }

  @Test(arguments: ["touch", "lock", "unlock", "unlock&force"]) func whatIsAbsentIs404(verb: String) async throws {
    #expect(try await server.send("POST", "/v1/blobs/a?" + verb).status == 404)
  }

  @Test(arguments: ["", "?", "?lock&touch", "?remove", "?force", "?lock&lock", "?LOCK"])
  func otherPostsAre400(query: String) async throws {
    _ = try await server.put("a", "x")
    #expect(try await server.send("POST", "/v1/blobs/a" + query).status == 400)
    #expect(try await server.send("HEAD", "/v1/blobs/a")["X-BlobCache-Locks"] == nil)
  }
}
