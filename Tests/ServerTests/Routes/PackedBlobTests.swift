import BlobCache
import BlobCacheServer
import BlobRecord
import Foundation
import TestSupport
import Testing

/// A server of a directory that packs small blobs returns the same answers as any other.
@Suite struct PackedBlobTests {
  let server: TestServer

  init() throws { server = try TestServer { $0.store.packing = .upTo(8192) } }

  /// Returns the names of files that contain a single record.
  private func recordFiles() throws -> [String] {
    try FileManager.default.subpathsOfDirectory(atPath: server.root.string)
      .filter { !$0.hasPrefix(".") && $0.contains("/") }
  }

  @Test(arguments: ["", "hello", String(repeating: "long ", count: 1000)])
  func aSmallBlobIsPutAndRead(text: String) async throws {
    let put = try await server.put("album%2F1", text, ["Content-Type": "text/plain", "X-BlobCache-TTL": "60"])
    #expect(put.status == 201)
    #expect(try recordFiles() == [])
    let answer = try await server.get("album%2F1")
    #expect(answer.status == 200)
    #expect(answer.text == text)
    #expect(answer["Content-Type"] == "text/plain")
    let head = try await server.send("HEAD", "/v1/blobs/album%2F1")
    #expect(head.status == 200)
    #expect(head["ETag"] == answer["ETag"])
    let same = try await server.get("album%2F1", ["If-None-Match": try #require(answer["ETag"])])
    #expect(same.status == 304)
    // Another blob supersedes it, packed or not.
    #expect(try await server.put("album%2F1", text + "!").status == 204)
    #expect(try await server.get("album%2F1").text == text + "!")
    #expect(try await server.put("album%2F1", String(repeating: "x", count: 9000)).status == 204)
    #expect(try recordFiles().count == 1)
    #expect(try await server.put("album%2F1", text).status == 204)
    #expect(try recordFiles() == [])
    #expect(try await server.send("DELETE", "/v1/blobs/album%2F1").status == 204)
    #expect(try await server.get("album%2F1").status == 404)
  }

  /// A body in chunks is written as a stream. It is packed, because it turns out to be small.
  @Test func aStreamThatStaysSmallIsPacked() async throws {
    let body = Pieces(pieces: [Data("hello ".utf8), Data("world".utf8)]).body
    #expect(try await server.send("PUT", "/v1/blobs/a", [:], body).status == 201)
    #expect(try recordFiles() == [])
    #expect(try await server.get("a").text == "hello world")
    #expect(try server.temporaryFiles() == [])
  }

  @Test(arguments: [("bytes=1-3", "ell"), ("bytes=-2", "lo"), ("bytes=2-", "llo")])
  func aPartIsRead(range: String, expected: String) async throws {
    _ = try await server.put("a", "hello")
    let part = try await server.get("a", ["Range": range])
    #expect(part.status == 206)
    #expect(part.text == expected)
  }

  @Test func theRecordIsHandedOutAsAFile() async throws {
    _ = try await server.put("a", "hello", ["X-BlobCache-TTL": "60"])
    let packed = try await server.send("GET", "/v1/records/a")
    #expect(packed.status == 200)
    #expect(packed.payload.count == 69)
    #expect(try server.cache.store.unpackRecords().moved == 1)
    #expect(try await server.send("GET", "/v1/records/a").payload == packed.payload)
  }

  @Test func theListAndTheCountsHaveThem() async throws {
    for key in ["a", "b", "c"] { _ = try await server.put(key, "payload of " + key) }
    _ = try await server.send("DELETE", "/v1/blobs/c")
    let list = try await server.send("GET", "/v1/blobs").text
    #expect(list.split(separator: "\n").filter { $0.contains("\"type\":\"record\"") }.count == 2, "\(list)")
    let name = "{directory=\"\(server.cache.directory)\"}"
    let metrics = try await server.send("GET", "/metrics").text
    for line in ["blobcache_packs\(name) 1", "blobcache_packed_records\(name) 2"] {
      #expect(metrics.contains("\n\(line)\n"), "\(metrics)")
    }
    let usage = try await server.cache.packUsage()
    #expect(usage.deadBytes > 0)
    #expect(metrics.contains("\nblobcache_pack_dead_bytes\(name) \(usage.deadBytes)\n"))
    #expect(metrics.contains("\nblobcache_pack_live_bytes\(name) \(usage.liveBytes)\n"))
    let status = try await server.send("GET", "/status").text
    #expect(status.contains("\"packs\":1,\"packedRecords\":2,\"packLiveBytes\":\(usage.liveBytes)"), "\(status)")
    #expect(try await server.page("").text.contains("<h2>Packed</h2><p class=\"value\">2</p>"))
  }

  @Test func thePageOfARecordSaysWhereItLies() async throws {
    _ = try await server.put("a", "hello", ["X-BlobCache-TTL": "3600"])
    let page = try await server.page("record?key=a")
    #expect(page.status == 200)
    #expect(page.text.contains("<bdi>.packs/p-0</bdi>"), "\(page.text)")
    #expect(page.text.contains("<small>packed: chunk 0, offset 0, sequence 1</small>"))
    #expect(page.text.contains("Sound: the header and the payload are what was stored."))
    #expect(page.text.contains("The header that its file would have, byte by byte"))
    for field in RecordField.allCases { #expect(page.text.contains("<td class=\"mark\">\(field.rawValue)</td>")) }
    #expect(try await server.page("record?key=b").status == 404)
    let table = try await server.page("records")
    #expect(table.links(to: "record?key=a").count == 1)
  }
}
