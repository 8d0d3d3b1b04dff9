import BlobCache
import BlobCacheServer
import BlobRecord
import Foundation
import TestSupport
import Testing

/// Requirements of the server taken from complaints of other caches' users: R9 and R13 to R15. BlobCacheTests cover
/// the tier, and RemoteProcessTests cover connections.
@Suite struct RequirementTests {
  /// R9: permission to read does not include permission to write, so that no reader can poison the cache.
  @Test(arguments: ["/v1/blobs/a", "/gradle/a", "/ccache/a", "/sccache/a", "/turbo/v8/artifacts/0a"])
  func R9_aReaderPoisonsNothing(target: String) async throws {
    var answering = BlobResponder.Configuration()
    answering.access = AccessControl(tokens: [
      AccessToken(name: "reader", secret: "r", scopes: [.read]),
      AccessToken(name: "writer", secret: "w", scopes: [.read, .write]),
    ])
    let server = try TestServer(answering)
    func send(_ method: String, _ secret: String, _ body: MessageBody = .none) async throws -> Answer {
      try await server.send(method, target, ["Authorization": "Bearer \(secret)"], body)
    }
    #expect((200...204).contains(try await send("PUT", "w", .bytes(Data("good".utf8))).status))
    #expect(try await send("PUT", "r", .bytes(Data("evil".utf8))).status == 403)
    #expect(try await send("DELETE", "r").status >= 400)
    #expect(try await send("GET", "r").text == "good")
  }

  /// R13: a refusal because of the size contains both sizes, and precedes the body.
  @Test func R13_aRefusalNamesBothSizes() async throws {
    let server = try TestServer { $0.store.limits.payload = 1000 }
    let answer = try await server.send(
      "PUT", "/v1/blobs/a", ["Content-Length": "5000"], .bytes(Data(count: 5000)))
    #expect(answer.status == 413)
    #expect(answer.text.contains("5000") && answer.text.contains("1000"), "\(answer.text)")
  }

  /// R14: a build tool gets only statuses of its protocol, and therefore a miss for a damaged record.
  @Test(arguments: ["/gradle/a", "/ccache/a", "/sccache/a", "/turbo/v8/artifacts/0a"])
  func R14_aClientGetsStatusesThatItKnows(target: String) async throws {
    let server = try TestServer {
      $0.store.packing = .off
      $0.memory = nil
    }
    #expect(try await server.send("GET", target).status == 404)
    let put = try await server.send("PUT", target, ["If-None-Match": "*"], .bytes(Data("text".utf8)))
    #expect([200, 201, 202, 204].contains(put.status))
    let record = try #require(try server.cache.store.records().first { _ in true })
    let file = server.root.appending(record.file).string
    var bytes = try Data(contentsOf: URL(fileURLWithPath: file))
    bytes[bytes.count - 1] ^= 1
    try bytes.write(to: URL(fileURLWithPath: file))
    #expect(try await server.send("GET", target).status == 404)
  }

  /// R15: an artifact's signature is returned unchanged.
  @Test func R15_aSignatureComesBackAsItWas() async throws {
    let server = try TestServer()
    let target = "/turbo/v8/artifacts/0a"
    let tag = "aGVsbG8rL3dvcmxkLT0="
    _ = try await server.send(
      "PUT", target, ["x-artifact-tag": tag, "x-artifact-duration": "12"], .bytes(Data("tarball".utf8)))
    let answer = try await server.send("GET", target)
    #expect(answer["x-artifact-tag"] == tag)
    #expect(answer["x-artifact-duration"] == "12")
    #expect(answer.text == "tarball")
  }
}
