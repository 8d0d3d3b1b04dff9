import BlobCache
import BlobCacheServer
import Foundation
import TestSupport
import Testing

/// A server for one browser: its token works once, and every path requires the cookie.
@Suite struct EntranceTests {
  private static let token = "0123456789ABCDEF"

  private func server() throws -> TestServer {
    var configuration = BlobResponder.Configuration()
    configuration.entranceToken = Self.token
    return try TestServer(configuration)
  }

  /// Returns the cookie as a browser sends it.
  private func cookie(_ server: TestServer) async throws -> String {
    let answer = try await server.send("GET", "/ui/enter?token=" + Self.token)
    #expect(answer.status == 303)
    #expect(answer["Location"] == "./")
    let field = try #require(answer["Set-Cookie"])
    #expect(field.hasSuffix("; Path=/; HttpOnly; SameSite=Strict"))
    return String(field.prefix { $0 != ";" })
  }

  @Test(arguments: [
    "/ui/", "/ui/records", "/v1/blobs/a", "/v1/blobs", "/v1/records/a", "/metrics", "/status", "/readyz",
  ])
  func withoutTheCookieNothingIsAnswered(target: String) async throws {
    let server = try server()
    try await server.cache.store(Data("x".utf8), for: "a")
    let refusal = try await server.send("GET", target)
    #expect(refusal.status == 403)
    #expect(!refusal.text.contains(server.outside.path.string))
    let cookie = try await cookie(server)
    let parts = cookie.split(separator: "=")
    for wrong in ["", "a=b", "\(parts[0])=x", "x=\(parts[1])", "\(parts[0])", cookie + "0"] {
      #expect(try await server.send("GET", target, ["Cookie": wrong]).status == 403)
    }
    for right in [cookie, "a=b; " + cookie, cookie + ";c=d"] {
      #expect(try await server.send("GET", target, ["Cookie": right]).status == 200)
    }
  }

  @Test func theTokenWorksOnce() async throws {
    let server = try server()
    for wrong in ["/ui/enter", "/ui/enter?token=", "/ui/enter?token=0123456789ABCDEE"] {
      #expect(try await server.send("GET", wrong).status == 403)
    }
    _ = try await cookie(server)
    #expect(try await server.send("GET", "/ui/enter?token=" + Self.token).status == 403)
  }

  /// Programs that preview links send HEAD, and must neither use up the token nor get the cookie.
  @Test func aHeadLeavesTheTokenValid() async throws {
    let server = try server()
    for _ in 0..<2 {
      let answer = try await server.send("HEAD", "/ui/enter?token=" + Self.token)
      #expect(answer.status == 303)
      #expect(answer["Set-Cookie"] == nil)
    }
    #expect(try await server.send("HEAD", "/ui/enter?token=x").status == 403)
    let cookie = try await cookie(server)
    #expect(try await server.send("GET", "/ui/", ["Cookie": cookie]).status == 200)
    #expect(try await server.send("HEAD", "/ui/enter?token=" + Self.token).status == 403)
  }

  @Test(arguments: ["/healthz", "/ui/viewer.css", "/ui/viewer.js", "/ui/icon.svg"])
  func whatTellsNothingNeedsNoCookie(target: String) async throws {
    #expect(try await server().send("GET", target).status == 200)
  }

  @Test func anOpenServerHasNoEntrance() async throws {
    #expect(try await TestServer().send("GET", "/ui/enter?token=x").status == 404)
  }
}
