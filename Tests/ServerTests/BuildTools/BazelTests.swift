import BlobCache
import BlobCacheServer
import BlobRecord
import Foundation
import TestSupport
import Testing

@Suite struct BazelTests {
  let server: TestServer

  init() throws { server = try TestServer() }

  private static func digest(_ data: Data) -> String {
    SHA256Digest.digest(of: data.bytes).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
  }

  static let payloads = [Data("hello".utf8), Data(repeating: 7, count: 100_000), Data(repeating: 9, count: 700_001)]

  /// Returns bodies with a length and without.
  private static func bodies(_ payload: Data) -> [MessageBody] {
    let pieces = stride(from: 0, to: payload.count, by: 65_521).map {
      payload.subdata(in: $0..<min($0 + 65_521, payload.count))
    }
    return [Pieces(pieces: pieces).body, Pieces(pieces: pieces).body(told: Int64(payload.count))]
  }

  @Test(arguments: payloads) func whatHashesToItsNameIsStored(payload: Data) async throws {
    let path = "/bazel/cas/" + Self.digest(payload)
    #expect(try await server.send("GET", path).status == 404)
    for (index, body) in Self.bodies(payload).enumerated() {
      #expect(try await server.send("PUT", path, [:], body).status == (index == 0 ? 201 : 204))
      #expect(try await server.send("GET", path).payload == payload)
    }
  }

  @Test(arguments: payloads) func whatHashesToAnotherNameIsNot(payload: Data) async throws {
    let path = "/bazel/cas/" + Self.digest(Data("other".utf8))
    for body in Self.bodies(payload) {
      let answer = try await server.send("PUT", path, [:], body)
      #expect(answer.status == 400)
      #expect(answer.text.contains(Self.digest(payload)))
      #expect(try await server.send("GET", path).status == 404)
    }
    #expect(try server.temporaryFiles() == [])
  }

  @Test(arguments: payloads) func whatBreaksOffIsNotStored(payload: Data) async throws {
    let path = "/bazel/cas/" + Self.digest(payload)
    let body = Pieces(pieces: [payload], breaksOff: true).body
    #expect(try await server.send("PUT", path, [:], body).status == 400)
    #expect(try await server.send("GET", path).status == 404)
  }

  @Test(arguments: [("hello", 201), ("other", 400)]) func aBodyInOnePieceIsHashedToo(
    text: String, status: Int
  ) async throws {
    let path = "/bazel/cas/" + Self.digest(Data("hello".utf8))
    #expect(try await server.send("PUT", path, [:], .bytes(Data(text.utf8))).status == status)
  }

  @Test func nothingIsSeenBeforeItIsHashed() async throws {
    let path = "/bazel/cas/" + Self.digest(Data("hello".utf8))
    for (visibility, status) in [("whileWriting", 400), ("afterCommit", 201)] {
      let body = Pieces(pieces: [Data("hello".utf8)]).body
      #expect(try await server.send("PUT", path, ["X-BlobCache-Visibility": visibility], body).status == status)
    }
  }

  /// Bazel never requests the empty blob, but other clients of the protocol do.
  @Test func theEmptyBlobIsAlwaysThere() async throws {
    let path = "/bazel/cas/" + Self.digest(Data())
    for method in ["GET", "HEAD"] {
      let answer = try await server.send(method, path)
      #expect(answer.status == 200)
      #expect(answer.response.body.byteCount == 0)
    }
    #expect(try await server.send("PUT", path, ["Content-Length": "0"]).status == 201)
    #expect(try await server.send("PUT", path, [:], .bytes(Data("x".utf8))).status == 400)
    let other = "/bazel/cas/" + Self.digest(Data("x".utf8))
    #expect(try await server.send("PUT", other, ["Content-Length": "0"]).status == 400)
    #expect(try await server.send("GET", other).status == 404)
  }

  /// An action's result is named after the action, so its digest is not checked.
  @Test func aResultHasAnyBytes() async throws {
    let path = "/bazel/ac/" + Self.digest(Data("action".utf8))
    #expect(try await server.send("PUT", path, [:], .bytes(Data("result".utf8))).status == 201)
    #expect(try await server.send("GET", path).text == "result")
  }

  @Test(arguments: [
    "abc", String(repeating: "0", count: 63), String(repeating: "0", count: 65), String(repeating: "A", count: 64),
    String(repeating: "g", count: 64), String(repeating: "0", count: 40),
  ])
  func whatIsNoDigestIs400(name: String) async throws {
    for kind in ["ac", "cas"] {
      let answer = try await server.send("GET", "/bazel/\(kind)/\(name)")
      #expect(answer.status == 400)
      #expect(answer.text.contains("SHA-256"))
    }
  }
}
