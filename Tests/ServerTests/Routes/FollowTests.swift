import BlobCache
import BlobCacheServer
import BlobRecord
import Foundation
import TestSupport
import Testing

/// Blobs that are read while they are written.
@Suite struct FollowTests {
  static let isSeen: HeaderFields = ["X-BlobCache-Visibility": "whileWriting"]
  let server: TestServer

  init() throws { server = try TestServer() }

  private func respond(
    _ method: String, _ target: String = "/v1/blobs/a", _ fields: HeaderFields = [:]
  ) async -> ServerResponse {
    await server.responder.respond(to: ServerRequest(method: method, target: target, fields: fields))
  }

  private func firstPiece(_ response: ServerResponse) async throws -> Data? {
    guard case .stream(nil, let pieces) = response.body else { return nil }
    for try await piece in pieces { return piece }
    return nil
  }

  @Test(arguments: [6, nil]) func aGetFollows(told: Int?) async throws {
    let follower = Answers()
    let body = MadePieces(
      { Data("one".utf8) },
      {
        let response = await respond("GET")
        #expect(response.status == 200)
        #expect(response.fields["ETag"] == nil)
        #expect(response.fields["Cache-Control"] == "no-store")
        #expect(response.fields["Content-Disposition"] == "attachment")
        #expect(response.body.byteCount == nil)
        let first = try await firstPiece(response)
        #expect(first == Data("one".utf8))
        await follower.append(response)
        return Data("two".utf8)
      })
    #expect(try await server.send("PUT", "/v1/blobs/a", Self.isSeen, body.body(told: told)).status == 201)
    for response in await follower.all { #expect(try await Answer(response).text == "onetwo") }
    #expect(try await server.get("a").text == "onetwo")
    #expect(try await server.send("PUT", "/v1/blobs/a", Self.isSeen, body.body(told: told)).status == 204)
  }

  /// A body that has already arrived is stored without becoming visible first.
  @Test(arguments: [MessageBody.bytes(Data()), .bytes(Data(repeating: 7, count: 300_000))])
  func aBodyThatIsThereIsStored(body: MessageBody) async throws {
    #expect(try await server.send("PUT", "/v1/blobs/a", Self.isSeen, body).status == 201)
    #expect(try await server.get("a").payload.count == (body.byteCount ?? -1))
  }

  @Test func aBodyThatBreaksOffBreaksTheAnswerOff() async throws {
    _ = try await server.put("a", "old")
    let follower = Answers()
    let body = MadePieces(
      { Data("one".utf8) },
      {
        await follower.append(await respond("GET"))
        throw BodyBrokenOff()
      })
    #expect(try await server.send("PUT", "/v1/blobs/a", Self.isSeen, body.body(told: nil)).status == 400)
    let response = try #require(await follower.all.first)
    #expect(response.status == 200)
    await #expect(throws: (any Error).self) { _ = try await Answer(response) }
    // The old blob was removed when the new one began.
    #expect(try await server.get("a").status == 404)
  }

  @Test func whatIsStillWrittenHasNoTagAndNoSize() async throws {
    let body = MadePieces(
      { Data("one".utf8) },
      {
        let head = await respond("HEAD")
        #expect(head.status == 200)
        #expect(head.body.byteCount == nil)
        let statuses: [(String, String, HeaderFields, Int)] = [
          ("GET", "/v1/blobs/a", ["If-Match": "*"], 200), ("GET", "/v1/blobs/a", ["If-Match": "\"a\""], 412),
          ("GET", "/v1/blobs/a", ["If-None-Match": "*"], 304), ("GET", "/v1/blobs/a", ["If-None-Match": "\"\""], 200),
          ("GET", "/v1/blobs/a", ["Range": "bytes=0-1"], 200), ("GET", "/v1/records/a", [:], 409),
          ("POST", "/v1/blobs/a?lock", [:], 409),
          ("PUT", "/v1/blobs/a", ["If-None-Match": "*", "Content-Length": "0"], 412),
          ("DELETE", "/v1/blobs/a", ["If-Match": "\"a\""], 412),
        ]
        for (method, target, fields, status) in statuses {
          #expect(await respond(method, target, fields).status == status, "\(method) \(target) \(fields.all)")
        }
        return Data("two".utf8)
      })
    #expect(try await server.send("PUT", "/v1/blobs/a", Self.isSeen, body.body(told: nil)).status == 201)
  }

  @Test(arguments: ["PUT", "DELETE"]) func whatIsChangedMeanwhileWins(method: String) async throws {
    let body = MadePieces(
      { Data("one".utf8) },
      {
        #expect(await respond(method, "/v1/blobs/a", ["Content-Length": "0"]).status == 204)
        return Data("two".utf8)
      })
    #expect(try await server.send("PUT", "/v1/blobs/a", Self.isSeen, body.body(told: nil)).status == 409)
    let answer = try await server.get("a")
    #expect(answer.status == (method == "PUT" ? 200 : 404))
  }

  /// A visible store has no conditions, because the old blob is removed before a condition could be checked.
  @Test(arguments: ["If-Match", "If-None-Match"]) func aConditionIsRefused(name: String) async throws {
    var fields = Self.isSeen
    fields.append(name, "*")
    #expect(try await server.put("a", "x", fields).status == 400)
    #expect(try await server.put("a", "x", ["X-BlobCache-Visibility": "soon"]).status == 400)
    #expect(try await server.get("a").status == 404)
  }
}

/// Answers that a test checks later.
private actor Answers {
  private(set) var all: [ServerResponse] = []

  func append(_ response: ServerResponse) { all.append(response) }
}
