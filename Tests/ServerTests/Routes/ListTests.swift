import BlobCache
import BlobCacheServer
import BlobRecord
import Foundation
import Locks
import TestSupport
import Testing

@Suite struct ListTests {
  struct Line: Decodable {
    let type: String
    let key: String?
    let state: String?
    let payloadSize: Int?
    let ttl: Int?
    let expiresAt: Int64?
    let contentType: String?
    let next: String?
  }

  private func lines(_ answer: Answer) throws -> [Line] {
    try answer.text.split(separator: "\n").map { try JSONDecoder().decode(Line.self, from: Data($0.utf8)) }
  }

  /// Returns the lines of all pages, and the number of pages.
  private func pages(of server: TestServer, _ query: String) async throws -> (lines: [Line], count: Int) {
    var (all, count, after): ([Line], Int, String?) = ([], 0, nil)
    repeat {
      let position = after.map { "&after=\($0)" } ?? ""
      let answer = try await server.send("GET", "/v1/blobs?" + query + position)
      #expect(answer.status == 200)
      let lines = try lines(answer)
      after = lines.last?.next
      #expect(answer["X-BlobCache-Next"] == after)
      all += lines.filter { $0.type == "record" }
      count += 1
    } while after != nil
    return (all, count)
  }

  static let arrangements: [BlobStore.Configuration.Layout] = [
    .init(arrangement: .prefix), .init(arrangement: .spread), .init(arrangement: .flat),
    .init(naming: .sha256, arrangement: .spread),
  ]

  @Test(arguments: arrangements) func pagesHaveEachRecordOnce(layout: BlobStore.Configuration.Layout) async throws {
    let server = try TestServer { $0.store.layout = layout }
    let keys = (0..<300).map { "\($0 % 7 == 0 ? "odd/" : "")key \($0)" }
    for key in keys { try await server.cache.store(Data(key.utf8), for: BlobKey(key)) }
    for limit in [1, 7, 1000] {
      let (lines, _) = try await pages(of: server, "limit=\(limit)")
      #expect(lines.compactMap(\.key).sorted() == keys.sorted())
      let (odd, _) = try await pages(of: server, "limit=\(limit)&prefix=odd%2F")
      #expect(odd.compactMap(\.key).sorted() == keys.filter { $0.hasPrefix("odd/") }.sorted())
    }
  }

  @Test func aPageHasNoMoreThanItsLimit() async throws {
    let server = try TestServer()
    for number in 0..<250 { try await server.cache.store(Data(), for: BlobKey("\(number)")) }
    let first = try await server.send("GET", "/v1/blobs")
    #expect(try lines(first).count { $0.type == "record" } == 100)
    let (met, count) = try await pages(of: server, "limit=100")
    #expect(met.count == 250)
    #expect(count == 3)
  }

  /// Removing records before or after a position does not affect others.
  @Test func recordsThatStayAreMetOnceWhileOthersGo() async throws {
    let server = try TestServer { $0.store.layout.arrangement = .prefix }
    // All keys are in one subdirectory, so that pages end in its middle.
    let keys = (0..<120).map { "same\($0)" }
    for key in keys { try await server.cache.store(Data(), for: BlobKey(key)) }
    var (met, after): ([String], String?) = ([], nil)
    var gone: Set<String> = []
    repeat {
      let answer = try await server.send("GET", "/v1/blobs?limit=10" + (after.map { "&after=\($0)" } ?? ""))
      let lines = try lines(answer)
      after = lines.last?.next
      met += lines.compactMap(\.key)
      for key in [met.last, keys.first { !met.contains($0) && !gone.contains($0) }].compactMap({ $0 }) {
        _ = try await server.cache.remove(BlobKey(key))
        gone.insert(key)
      }
    } while after != nil
    #expect(Set(met).count == met.count)
    #expect(Set(keys).subtracting(gone).subtracting(met) == [])
  }

  @Test func aRecordIsShownAsTheToolShowsIt() async throws {
    let server = try TestServer()
    _ = try await server.put("a%22%0A", "hello", ["Content-Type": "text/plain", "X-BlobCache-TTL": "60"])
    let line = try #require(try lines(try await server.send("GET", "/v1/blobs")).first)
    #expect(line.key == "a\"\n")
    #expect(line.state == "live")
    #expect(line.payloadSize == 5)
    #expect(line.ttl == 60)
    #expect(line.expiresAt == server.clock.now.seconds + 60)
    #expect(line.contentType == "text/plain")
  }

  @Test(arguments: [
    ("live", ["a", "locked"]), ("locked", ["locked"]), ("expired", ["old"]), ("all", ["a", "locked", "old"]),
  ])
  func statesAreChosen(state: String, keys: [String]) async throws {
    let server = try TestServer()
    _ = try await server.put("a", "x")
    _ = try await server.put("old", "x", ["X-BlobCache-TTL": "10"])
    _ = try await server.put("locked", "x", ["X-BlobCache-Locks": "one", "X-BlobCache-TTL": "10"])
    server.clock.advance(by: 11)
    let answer = try await server.send("GET", "/v1/blobs?state=\(state)")
    #expect(try lines(answer).compactMap(\.key).sorted() == keys)
  }

  @Test func nothingIsAnEmptyList() async throws {
    let answer = try await TestServer().send("GET", "/v1/blobs")
    #expect(answer.status == 200)
    #expect(answer.text == "")
  }

  @Test(arguments: [
    "limit=0", "limit=1001", "limit=x", "limit=", "after=", "after=x", "after=1-2", "after=1-2-!", "state=",
    "state=dead",
    "page=1",
  ])
  func aWrongParameterIs400(query: String) async throws {
    #expect(try await TestServer().send("GET", "/v1/blobs?" + query).status == 400)
  }

  /// A position that no page has returned is accepted, and selects some of the records.
  @Test(arguments: ["1-2-3", "zzzzzzzzzzz-0-0", "3w5e11264sgsf-9-zzzzz"]) func anInventedPositionDoesNoHarm(
    position: String
  ) async throws {
    let server = try TestServer { $0.store.packing = .off }
    for number in 0..<20 { try await server.cache.store(Data(), for: BlobKey("\(number)")) }
    #expect(try await server.send("GET", "/v1/blobs?after=\(position)").status == 200)
  }

  @Test(arguments: [nil, "text/plain"] as [String?]) func aRecordIsItsFile(type: String?) async throws {
    let server = try TestServer { $0.store.packing = .off }
    for (key, count) in [("small", 5), ("large", 200_000)] {
      let fields: HeaderFields = type.map { ["Content-Type": $0] } ?? [:]
      _ = try await server.put(key, String(repeating: "x", count: count), fields)
      let answer = try await server.send("GET", "/v1/records/\(key)")
      #expect(answer.status == 200)
      #expect(answer["Content-Type"] == "application/vnd.blobcache.record")
      let file = try server.cache.filePath(for: BlobKey(key)).string
      #expect(answer.payload == (try Data(contentsOf: URL(filePath: file))))
    }
    // The file then contains the earlier extension too, but the record that is sent does not.
    try await server.cache.setExtendedData(Data("other".utf8), for: "large")
    let sent = try await server.send("GET", "/v1/records/large").payload
    let header = try RecordHeader(decoding: sent.bytes)
    let tail = try RecordExtension(decoding: sent.dropFirst(64 + 200_000).bytes)
    #expect(header.extensionEnd == UInt32(sent.count - 64 - 200_000))
    #expect(tail.data == Array("other".utf8))
    #expect(try await server.send("GET", "/v1/records/none").status == 404)
    #expect(try await server.send("PUT", "/v1/records/none").status == 405)
  }

  /// A list that nobody waits for any more ends before its lines are written.
  @Test func aCancelledListEnds() async throws {
    let listing = Lock<Task<Answer, any Error>?>(nil)
    let server = try TestServer { configuration in
      let now = configuration.store.now
      configuration.store.now = {
        listing.withLock { $0 }?.cancel()
        return now()
      }
    }
    _ = try await server.put("a", "x")
    let (start, starter) = AsyncStream.makeStream(of: Void.self)
    let task = Task {
      for await _ in start { break }
      return try await server.send("GET", "/v1/blobs")
    }
    listing.withLock { $0 = task }
    starter.yield()
    // The clock is read while a thread reads the records.
    #expect(try await task.value.status == 503)
  }
}
