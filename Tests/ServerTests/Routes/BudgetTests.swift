import BlobCacheServer
import Foundation
import Testing

/// The limit of all bodies that are being received.
@Suite struct BudgetTests {
  private func server(inMemory: Int64 = 1 << 20, onDisk: Int64 = 1 << 20) throws -> TestServer {
    var answering = BlobResponder.Configuration()
    answering.bodyBytesInMemory = inMemory
    answering.bodyBytesOnDisk = onDisk
    return try TestServer(answering)
  }

  @Test func bodiesShareTheDisk() async throws {
    let server = try server()
    let piece = Data(count: 300_000)
    let body = MadePieces(
      { piece }, { piece },
      {
        // Another body may have 448,576 bytes.
        let fits = Pieces(pieces: [piece]).body(told: 300_000)
        let status = try await server.send("PUT", "/v1/blobs/b", [:], fits).status
        #expect(status == 201)
        let tooLarge = try await server.send("PUT", "/v1/blobs/c", [:], Pieces(pieces: [piece, piece]).body)
        #expect(tooLarge.status == 503)
        #expect(tooLarge["Retry-After"] == "1")
        // A small body is only buffered in memory.
        let small = try await server.put("d", "small").status
        #expect(small == 201)
        return piece
      })
    #expect(try await server.send("PUT", "/v1/blobs/a", [:], body.body(told: 900_000)).status == 201)
    #expect(try await server.get("c").status == 404)
    #expect(try server.temporaryFiles() == [])
    // The whole budget was released.
    let again = Pieces(pieces: [piece, piece, piece]).body(told: 900_000)
    #expect(try await server.send("PUT", "/v1/blobs/c", [:], again).status == 201)
  }

  @Test func aBodyAloneMayBeLarger() async throws {
    let server = try server(inMemory: 1000, onDisk: 1000)
    let body = Pieces(pieces: [Data(count: 300_000), Data(count: 300_000)])
    #expect(try await server.send("PUT", "/v1/blobs/a", [:], body.body(told: 600_000)).status == 201)
    #expect(try await server.send("PUT", "/v1/blobs/a", [:], body.body).status == 204)
  }

  @Test func bodiesShareTheMemory() async throws {
    let server = try server(inMemory: 1000)
    let body = MadePieces(
      { Data(count: 400) },
      {
        for count in [600, 601] {
          let pieces = Pieces(pieces: [Data(count: count)])
          for body in [pieces.body(told: Int64(count)), pieces.body] {
            let answer = try await server.send("PUT", "/v1/blobs/b\(count)", [:], body)
            #expect((200...204).contains(answer.status) == (count == 600), "\(answer.status)")
          }
        }
        return Data()
      })
    #expect(try await server.send("PUT", "/v1/blobs/a", [:], body.body(told: 400)).status == 201)
    let whole = Pieces(pieces: [Data(count: 1000)]).body
    #expect(try await server.send("PUT", "/v1/blobs/c", [:], whole).status == 201)
  }

  /// A body that was announced takes nothing before it arrives.
  @Test(arguments: [256 << 10, nil]) func bytesAreCountedAsTheyArrive(told length: Int?) async throws {
    let server = try server(inMemory: 1000)
    let body = MadePieces {
      let other = try await server.send("PUT", "/v1/blobs/b", [:], .bytes(Data(count: 1000)))
      #expect(other.status == 201)
      return Data(count: 256 << 10)
    }
    #expect(try await server.send("PUT", "/v1/blobs/a", [:], body.body(told: length)).status == 201)
  }

  /// A caller whose bodies do not end leaves a quarter to the others, whoever the transport says that it is.
  @Test(
    arguments: [
      (["Authorization": "Bearer a"], ["Authorization": "Bearer b"], "1", "1"), ([:], [:], "1", "2"),
    ] as [(HeaderFields, HeaderFields, String, String)])
  func aCallerLeavesRoom(one: HeaderFields, other: HeaderFields, peer: String, otherPeer: String) async throws {
    var answering = BlobResponder.Configuration()
    answering.bodyBytesInMemory = 1000
    if one["Authorization"] != nil {
      answering.access = AccessControl(tokens: ["a", "b"].map { AccessToken(name: $0, secret: $0, scopes: [.write]) })
    }
    let server = try TestServer(answering)
    @Sendable func put(_ body: MessageBody, _ fields: HeaderFields, _ peer: String) async -> Int {
      var request = ServerRequest(method: "PUT", target: "/v1/blobs/a", fields: fields, body: body)
      request.peer = peer
      return await server.responder.respond(to: request).status
    }
    let body = MadePieces(
      { Data(count: 700) },
      {
        #expect(await put(.bytes(Data(count: 51)), one, peer) == 503)
        #expect(await put(.bytes(Data(count: 50)), one, peer) == 201)
        #expect(await put(.bytes(Data(count: 301)), other, otherPeer) == 503)
        #expect(await put(.bytes(Data(count: 300)), other, otherPeer) == 204)
        return Data()
      })
    #expect(await put(body.body(told: 700), one, peer) == 204)
    // Bodies that have ended release their bytes.
    let next = MadePieces(
      { Data(count: 100) },
      {
        #expect(await put(.bytes(Data(count: 650)), one, peer) == 204)
        return Data()
      })
    #expect(await put(next.body(told: 100), one, peer) == 204)
  }

  /// The memory of a large body is released with each piece that is written.
  @Test func writtenBytesTakeNoMemory() async throws {
    let server = try server(inMemory: 300_000)
    let body = MadePieces(
      { Data(count: 280_000) },
      {
        let other = try await server.send("PUT", "/v1/blobs/b", [:], .bytes(Data(count: 200_000)))
        #expect(other.status == 201)
        return Data(count: 10)
      })
    #expect(try await server.send("PUT", "/v1/blobs/a", [:], body.body(told: 280_010)).status == 201)
  }

  /// A body that breaks off releases its share of the budget.
  @Test func whatBreaksOffTakesNothing() async throws {
    let server = try server()
    for _ in 0..<8 {
      let body = Pieces(pieces: [Data(count: 300_000), Data(count: 300_000)], breaksOff: true).body
      #expect(try await server.send("PUT", "/v1/blobs/a", [:], body).status == 400)
    }
    let other = MadePieces {
      let status = try await server.send("PUT", "/v1/blobs/b", [:], Pieces(pieces: [Data(count: 900_000)]).body).status
      #expect(status == 201)
      return Data(count: 1)
    }
    #expect(try await server.send("PUT", "/v1/blobs/a", [:], other.body(told: nil)).status == 201)
  }
}
