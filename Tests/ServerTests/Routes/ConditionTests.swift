import BlobCache
import BlobCacheServer
import BlobRecord
import BlobStore
import Foundation
import TestSupport
import Testing

/// Conditions are checked when the change is made, not only when the request arrives.
@Suite struct ConditionTests {
  let server: TestServer

  init() throws { server = try TestServer() }

  @Test(arguments: [10, 300_000], [true, false]) func whatWasStoredMeanwhileIsNotReplaced(
    byteCount: Int, isTold: Bool
  ) async throws {
    let body = MadePieces { [server] in
      let status = try await server.put("a", "other", ["If-None-Match": "*"]).status
      #expect(status == 201)
      return Data(count: byteCount)
    }
    let answer = try await server.send(
      "PUT", "/v1/blobs/a", ["If-None-Match": "*"], body.body(told: isTold ? byteCount : nil))
    #expect(answer.status == 412)
    #expect(try await server.get("a").text == "other")
    #expect(try server.temporaryFiles() == [])
  }

  @Test(arguments: [10, 300_000]) func whatWasReplacedMeanwhileDoesNotMatch(byteCount: Int) async throws {
    _ = try await server.put("a", "one")
    let tag = try #require(try await server.get("a")["ETag"])
    let body = MadePieces { [server] in
      let status = try await server.put("a", "other", ["If-Match": tag]).status
      #expect(status == 204)
      return Data(count: byteCount)
    }
    let answer = try await server.send("PUT", "/v1/blobs/a", ["If-Match": tag], body.body(told: byteCount))
    #expect(answer.status == 412)
    #expect(try await server.get("a").text == "other")
  }

  /// The status depends on the record at the time of the change, not of the request's arrival.
  @Test func aBlobIsNewOnce() async throws {
    let body = MadePieces { [server] in
      let status = try await server.put("a", "other").status
      #expect(status == 201)
      return Data(count: 300_000)
    }
    #expect(try await server.send("PUT", "/v1/blobs/a", [:], body.body(told: 300_000)).status == 204)
  }

  @Test func ofThoseThatExcludeEachOtherOneStores() async throws {
    for key in ["a", "b", "c", "d", "e"] {
      let statuses = try await statuses(of: 16) { [server] in
        try await server.put(key, "\($0)", ["If-None-Match": "*"]).status
      }
      #expect(statuses == [201] + Array(repeating: 412, count: 15))
    }
  }

  @Test func ofThoseThatMatchOneRemoves() async throws {
    for key in ["a", "b", "c", "d", "e"] {
      _ = try await server.put(key, "one")
      let tag = try #require(try await server.get(key)["ETag"])
      let statuses = try await statuses(of: 16) { [server] _ in
        try await server.send("DELETE", "/v1/blobs/\(key)", ["If-Match": tag]).status
      }
      #expect(statuses.filter { $0 == 204 }.count == 1)
    }
  }

  /// Another process changes the key between the request's lookup and the change.
  @Test(arguments: [10, 300_000]) func anotherStoreOfTheDirectoryCounts(byteCount: Int) async throws {
    let other = try BlobStore(directory: server.root, configuration: server.cache.configuration.store)
    let body = MadePieces {
      try other.store(Data("other".utf8), for: "a")
      return Data(count: byteCount)
    }
    let answer = try await server.send("PUT", "/v1/blobs/a", ["If-None-Match": "*"], body.body(told: byteCount))
    #expect(answer.status == 412)
    #expect(try other.load("a")?.payload == Data("other".utf8))
    #expect(try server.temporaryFiles() == [])
  }

  @Test func whatHasExpiredIsNothing() async throws {
    _ = try await server.put("a", "one", ["X-BlobCache-TTL": "10"])
    let tag = try #require(try await server.get("a")["ETag"])
    server.clock.advance(by: 11)
    #expect(try await server.put("a", "two", ["If-Match": tag]).status == 412)
    #expect(try await server.send("DELETE", "/v1/blobs/a", ["If-Match": tag]).status == 404)
    #expect(try await server.put("a", "two", ["If-None-Match": "*"]).status == 201)
  }

  private func statuses(of count: Int, _ request: @escaping @Sendable (Int) async throws -> Int) async throws -> [Int] {
    try await withThrowingTaskGroup(of: Int.self) { group in
      for number in 0..<count { group.addTask { try await request(number) } }
      return try await group.reduce(into: []) { $0.append($1) }.sorted()
    }
  }
}
