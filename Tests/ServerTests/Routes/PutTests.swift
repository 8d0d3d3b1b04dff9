import BlobCache
import BlobCacheServer
import Foundation
import TestSupport
import Testing

@Suite struct PutTests {
  let server: TestServer

  init() throws { server = try TestServer() }

  @Test func aNewBlobIs201AndAReplacedOne204() async throws {
    #expect(try await server.put("a", "one").status == 201)
    let replaced = try await server.put("a", "two")
    #expect(replaced.status == 204)
    let answer = try await server.get("a")
    #expect(answer.text == "two")
    #expect(answer["ETag"] == replaced["ETag"])
  }

  @Test(arguments: [nil, 700_000] as [Int64?]) func aLargeBodyIsStoredInPieces(told: Int64?) async throws {
    let pieces = (0..<7).map { Data(repeating: UInt8($0), count: 100_000) }
    let body = told.map { Pieces(pieces: pieces).body(told: $0) } ?? Pieces(pieces: pieces).body
    let stored = try await server.send("PUT", "/v1/blobs/a", ["Content-Type": "a/b"], body)
    #expect(stored.status == 201)
    let answer = try await server.get("a")
    #expect(answer["ETag"] == stored["ETag"])
    #expect(answer.payload == pieces.reduce(Data(), +))
    #expect(answer["Content-Type"] == "a/b")
  }

  @Test(arguments: [nil, 10, 700_000] as [Int64?]) func aBodyThatBreaksOffStoresNothing(told: Int64?) async throws {
    _ = try await server.put("a", "old")
    let pieces = Pieces(
      pieces: told == 10 ? [Data(count: 9)] : (0..<6).map { _ in Data(count: 100_000) }, breaksOff: true)
    let answer = try await server.send("PUT", "/v1/blobs/a", [:], told.map { pieces.body(told: $0) } ?? pieces.body)
    #expect(answer.status == 400)
    #expect(try await server.get("a").text == "old")
    #expect(try server.temporaryFiles() == [])
  }

  @Test(
    arguments: [(10, [9]), (10, [6, 5]), (700_000, [100_000, 100_000]), (300_000, [300_000, 1])] as [(Int64, [Int])])
  func aBodyOfAnotherSizeStoresNothing(told: Int64, sizes: [Int]) async throws {
    let body = Pieces(pieces: sizes.map { Data(count: $0) }).body(told: told)
    #expect(try await server.send("PUT", "/v1/blobs/a", [:], body).status == 400)
    #expect(try await server.get("a").status == 404)
  }

  /// Disk space is not reserved for an announced length, because a client may announce anything.
  @Test func theDiskIsTakenAsTheBodyComes() async throws {
    let told = 256 << 20
    let body = MadePieces(
      { [server] in
        let files = try server.temporaryFiles()
        #expect(files == [])
        return Data(count: 300_000)
      },
      { [server] in
        let (files, bytes) = (try server.temporaryFiles(), try server.temporaryBytes())
        #expect(files.count == 1)
        #expect(bytes < 16 << 20)
        throw BodyBrokenOff()
      })
    #expect(try await server.send("PUT", "/v1/blobs/a", [:], body.body(told: told)).status == 400)
    #expect(try server.temporaryFiles() == [])
  }

  /// The body is refused before its first byte was received.
  @Test func whatDoesNotFitIntoTheLimitIsNotAskedFor() async throws {
    let server = try TestServer { $0.store.limits.size = 500_000 }
    let body = MadePieces {
      Issue.record("the body is asked for")
      return Data()
    }
    let answer = try await server.send("PUT", "/v1/blobs/a", [:], body.body(told: 600_000))
    #expect(answer.status == 413)
    #expect(answer.text.contains("600000"))
    #expect(answer.text.contains("499936"))
  }

  @Test func whatIsTooLargeIs413WithBothSizes() async throws {
    let server = try TestServer { $0.store.limits.payload = 300_000 }
    let told = try await server.send("PUT", "/v1/blobs/a", [:], Pieces(pieces: []).body(told: 300_001))
    #expect(told.status == 413)
    #expect(told.text == "the payload has 300001 bytes, and at most 300000 are stored here\n")
    let untold = try await server.send(
      "PUT", "/v1/blobs/a", [:], Pieces(pieces: (0..<4).map { _ in Data(count: 100_000) }).body)
    #expect(untold.status == 413)
    #expect(untold.text.contains("300000"))
    #expect(try await server.get("a").status == 404)
    #expect(try server.temporaryFiles() == [])
  }

  @Test func whatTheLimitDoesNotTakeIs507Or413() async throws {
    let server = try TestServer { $0.store.limits.size = 10_000 }
    #expect(try await server.send("PUT", "/v1/blobs/a", [:], .bytes(Data(count: 20_000))).status == 413)
  }

  @Test(
    arguments: [
      (["X-BlobCache-TTL": "90"], "90"), (["X-BlobCache-TTL": "10m"], "600"), (["X-BlobCache-TTL": "6h"], "21600"),
      (["X-BlobCache-TTL": "30d"], "2592000"), (["X-BlobCache-TTL": "1w"], "604800"),
      (["X-BlobCache-TTL": "never"], "never"),
      (["X-BlobCache-TTL": "0"], "0"), (["Cache-Control": "max-age=60"], "60"),
      (["Cache-Control": "public, S-MaxAge=\"30\", max-age=60"], "30"), (["Cache-Control": "max-age=x"], "0"),
      (["Cache-Control": "max-age=x, max-age=60, max-age=y"], "60"),
      (["Cache-Control": "max-age=60", "X-BlobCache-TTL": "5"], "5"),
      (["Expires": "Tue, 14 Nov 2023 22:14:20 GMT", "Date": "Tue, 14 Nov 2023 22:13:20 GMT"], "60"),
      (["Expires": "Tue, 14 Nov 2023 22:13:50 GMT"], "30"), ([:], "0"),
      (["Expires": "Tuesday, 14-Nov-23 22:13:50 GMT"], "30"), (["Expires": "Tue Nov 14 22:13:50 2023"], "30"),
      (["Cache-Control": "max-age=60, max-age=86400"], "60"), (["Cache-Control": "max-age=90, max-age=60"], "60"),
    ] as [([String: String], String)])
  func theRequestSaysHowLongItLives(fields: [String: String], ttl: String) async throws {
    var sent = HeaderFields()
    for (name, value) in fields { sent.append(name, value) }
    #expect(try await server.put("a", "x", sent).status == 201)
    #expect(try await server.get("a")["X-BlobCache-TTL"] == ttl)
  }

  @Test(arguments: [
    ["Cache-Control": "no-store"], ["Cache-Control": "max-age=0"], ["Expires": "Tue, 14 Nov 2023 22:13:20 GMT"],
    ["Cache-Control": "max-age=0, max-age=60"], ["Cache-Control": "max-age=60, max-age=\"0\""],
    ["Expires": "0"], ["Expires": "soon"], ["Expires": ""],
    ["Expires": "Thu, 01 Jan 1969 00:00:00 GMT"], ["Expires": "0", "Date": "Thu, 01 Jan 1970 00:00:00 GMT"],
  ])
  func whatMustNotBeKeptIsNotStored(fields: [String: String]) async throws {
    var sent = HeaderFields()
    for (name, value) in fields { sent.append(name, value) }
    #expect(try await server.put("a", "x", sent).status == 204)
    #expect(try await server.get("a").status == 404)
  }

  @Test(arguments: [
    ("X-BlobCache-TTL", "soon", 400), ("X-BlobCache-TTL", "-1", 400), ("X-BlobCache-TTL", "1.5h", 400),
    ("X-BlobCache-TTL", "99999999999999999999d", 400), ("X-BlobCache-Locks", "two", 400),
    ("Content-Range", "bytes 0-1/2", 400), ("Content-Encoding", "gzip", 415), ("Content-Type", "text", 400),
    ("Content-Type", "text/html\u{1}", 400),
  ])
  func aWrongFieldIsRefused(name: String, value: String, status: Int) async throws {
    var sent = HeaderFields()
    sent.append(name, value)
    #expect(try await server.put("a", "x", sent).status == status)
    #expect(try await server.get("a").status == 404)
  }

  @Test func conditionsHold() async throws {
    #expect(try await server.put("a", "one", ["If-Match": "*"]).status == 412)
    #expect(try await server.put("a", "one", ["If-None-Match": "*"]).status == 201)
    #expect(try await server.put("a", "two", ["If-None-Match": "*"]).status == 412)
    let tag = try #require(try await server.get("a")["ETag"])
    #expect(try await server.put("a", "two", ["If-Match": "\"other\""]).status == 412)
    #expect(try await server.get("a").text == "one")
    #expect(try await server.put("a", "two", ["If-Match": tag]).status == 204)
    #expect(try await server.put("a", "three", ["If-Match": tag]).status == 412)
    #expect(try await server.send("DELETE", "/v1/blobs/a", ["If-Match": tag]).status == 412)
    #expect(try await server.get("a").text == "two")
  }

  @Test func locksAreAskedFor() async throws {
    _ = try await server.put("a", "one", ["X-BlobCache-Locks": "one"])
    #expect(try await server.get("a")["X-BlobCache-Locks"] == "1")
    _ = try await server.put("a", "two", ["X-BlobCache-Locks": "keep"])
    #expect(try await server.get("a")["X-BlobCache-Locks"] == "1")
    _ = try await server.put("a", "three")
    #expect(try await server.get("a")["X-BlobCache-Locks"] == nil)
  }

  @Test func aDirectoryThatTakesNoTypeStoresThePayload() async throws {
    let server = try TestServer { $0.store.layout = BlobStore.Configuration.sptPersistentCache.layout }
    #expect(try await server.put("a", "x", ["Content-Type": "text/plain"]).status == 201)
    #expect(try await server.get("a")["Content-Type"] == "application/octet-stream")
  }
}
