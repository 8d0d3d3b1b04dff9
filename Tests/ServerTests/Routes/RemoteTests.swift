import BlobCache
import BlobCacheServer
import Foundation
import Testing

/// The server's view of the tier that other machines share.
@Suite struct RemoteTests {
  private let objects = RemoteObjects()

  private func node() throws -> TestServer { try TestServer { [objects] in $0.remote = objects.tier } }

  /// Returns a server after a load with a hit in the tier, and a load with a miss.
  private func used() async throws -> TestServer {
    #expect(try await node().put("a", "hello").status == 201)
    let server = try node()
    #expect(try await server.get("a").text == "hello")
    #expect(try await server.get("none").status == 404)
    return server
  }

  @Test func metricsCountWhatTheTierDoes() async throws {
    let server = try await used()
    _ = try await server.put("b", "more")
    let text = try await server.send("GET", "/metrics").text
    let place = "directory=\"\(server.cache.directory)\""
    for (name, value) in [
      ("requests_total", 3), ("hits_total", 1), ("misses_total", 1), ("uploads_total", 1), ("loaded_bytes_total", 5),
      ("uploaded_bytes_total", 4), ("passed_over_total", 0), ("failures_total", 0), ("dropped_uploads_total", 0),
      ("waiting_changes", 0), ("waiting_bytes", 0),
    ] {
      #expect(text.contains("\nblobcache_remote_\(name){\(place)} \(value)\n"), "\(name)")
    }
    for user in ["loads", "changes"] {
      #expect(text.contains("_condition{\(place),for=\"\(user)\",condition=\"inUse\"} 1\n"))
      #expect(text.contains("_condition{\(place),for=\"\(user)\",condition=\"leftAlone\"} 0\n"))
    }
    for line in text.split(separator: "\n") where !line.hasPrefix("#") {
      #expect(line.wholeMatch(of: /[a-z_]+\{([a-z]+="[^"]*",?)+\} \d+/) != nil, "\(line)")
    }
  }

  @Test func theStatusIsALineForTheDirectoryAndOneForTheTier() async throws {
    let server = try await used()
    let answer = try await server.send("GET", "/status")
    #expect(answer["Content-Type"] == "application/x-ndjson")
    let lines = answer.text.split(separator: "\n")
    #expect(lines.count == 2)
    let objects = try lines.map {
      try #require(try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
    }
    #expect(objects[0]["type"] as? String == "status")
    #expect(objects[0]["directory"] as? String == server.cache.directory.string)
    #expect(objects[0]["stores"] as? Int == 1)
    #expect(objects[1]["type"] as? String == "remote")
    #expect(objects[1]["engine"] as? String == "memory://<b>objects</b>")
    #expect(objects[1]["condition"] as? String == "inUse")
    #expect(objects[1]["hits"] as? Int == 1)
    #expect(objects[1]["loadedBytes"] as? Int == 5)
    #expect(objects[1]["waitingChanges"] as? Int == 0)
  }

  /// A failing engine is paused; requests that it would have received are reported too.
  @Test func anEngineThatFailsIsShownSo() async throws {
    let server = try node()
    objects.fail(.refused)
    for key in ["a", "b"] { #expect(try await server.get(key).status == 404) }
    let status = try await server.send("GET", "/status").text
    #expect(status.contains("\"condition\":\"leftAlone\",\"changeCondition\":\"inUse\""))
    #expect(status.contains("\"passedOver\":1,\"failures\":1"))
    #expect(try await server.send("GET", "/metrics").text.contains("for=\"loads\",condition=\"leftAlone\"} 1\n"))
    let page = try await server.page("").text
    #expect(page.contains("loads <span class=\"state damaged\">left alone</span>"))
    #expect(page.contains("changes <span class=\"state live\">in use</span>"))
  }

  /// A blob in local memory is checked with the engine after the configured interval.
  @Test(arguments: [Duration.nanoseconds(1), nil]) func anotherMachinesBlobIsSeen(age: Duration?) async throws {
    let one = try node()
    let other = try TestServer {
      $0.remote = objects.tier
      $0.remote?.revalidatesAfter = age
    }
    _ = try await one.put("a", "one")
    #expect(try await other.get("a").text == "one")
    _ = try await one.put("a", "another")
    #expect(try await other.get("a").text == (age == nil ? "one" : "another"))
  }

  /// HEAD of a blob that only the tier has requests its header alone.
  @Test func aHeadFetchesNoBlob() async throws {
    let stored = try await node().put("a", String(repeating: "x", count: 300_107), ["Content-Type": "text/plain"])
    let tag = try #require(stored["ETag"])
    let server = try node()
    func head(_ key: String, _ fields: HeaderFields = [:]) async throws -> Answer {
      try await server.send("HEAD", "/v1/blobs/" + key, fields)
    }
    let answer = try await head("a")
    #expect(answer.status == 200 && answer.response.body.byteCount == 300_107)
    #expect(answer["ETag"] == tag && answer["Age"] == "0" && answer["Content-Disposition"] == "attachment")
    // The type is behind the payload.
    #expect(answer["Content-Type"] == nil)
    #expect(try await head("a", ["If-None-Match": tag]).status == 304)
    #expect(try await head("a", ["If-Match": "\"other\""]).status == 412)
    #expect(try await head("none").status == 404)
    #expect(objects.fetched.isEmpty)
    #expect(try server.cache.store.usage().records == 0)
    #expect(try await server.get("a").payload.count == 300_107)
    #expect(objects.fetched.count == 1)
    #expect(try await head("a")["Content-Type"] == "text/plain")
    objects.fail(.unreachable)
    #expect(try await head("b").status == 404)
    #expect(objects.fetched.count == 1)
  }

  /// HEAD of a record that is damaged here asks the tier too. Without an object there, the damage is reported.
  @Test func aHeadOfADamagedRecordAsksTheTier() async throws {
    let server = try TestServer {
      $0.remote = objects.tier
      $0.store.packing = .off
    }
    _ = try await server.put("a", "hello")
    let walk = FileManager.default.enumerator(atPath: server.root.string)?.compactMap { $0 as? String } ?? []
    let file = try #require(walk.first { $0.hasSuffix("/a") })
    var bytes = try #require(FileManager.default.contents(atPath: server.root.appending(file).string))
    bytes[20] ^= 1
    try bytes.write(to: URL(filePath: server.root.appending(file).string))
    server.cache.removeAllFromMemory()
    #expect(try await server.send("HEAD", "/v1/blobs/a").status == 200)
    for name in ["test/v1/a/a", "test/v1/a"] { try await objects.remove(RemoteName(name)) }
    #expect(try await server.send("HEAD", "/v1/blobs/a").status == 500)
    #expect(objects.fetched.isEmpty)
  }

  /// The answer to a DELETE contains whether the tier has removed the blob.
  @Test(
    arguments: [nil, .refused, .unsupported, .unreachable] as [RemoteError.Kind?], [HeaderFields(), ["If-Match": "*"]])
  func aRemovalIsToldWhetherTheTierDidIt(failure: RemoteError.Kind?, conditions: HeaderFields) async throws {
    let server = try node()
    _ = try await server.put("a", "hello")
    objects.fail(failure)
    let answer = try await server.send("DELETE", "/v1/blobs/a", conditions)
    #expect(answer.status == 204)
    let wanted = failure.map { $0 == .unreachable ? "postponed" : "dropped" } ?? "done"
    #expect(answer["X-BlobCache-Remote"] == wanted)
  }

  /// A blob that exists only in the tier is removed there.
  @Test func aBlobOfAnotherMachineIsRemovedThere() async throws {
    #expect(try await node().put("a", "hello").status == 201)
    let server = try node()
    let answer = try await server.send("DELETE", "/v1/blobs/a")
    #expect(answer.status == 404)
    #expect(answer["X-BlobCache-Remote"] == "done")
    #expect(try await server.get("a").status == 404)
  }

  /// Servers whose tiers lead to each other would otherwise pass on each other's records without end.
  @Test func requestsOfATierAreNotPassedOn() async throws {
    #expect(try await node().put("there", "hello").status == 201)
    let server = try node()
    let fields: HeaderFields = ["X-BlobCache-Tier": "another"]
    for method in ["GET", "HEAD"] { #expect(try await server.send(method, "/v1/blobs/there", fields).status == 404) }
    #expect(objects.fetched.isEmpty)
    #expect(try await server.put("small", "x", fields).status == 201)
    let large = Pieces(pieces: [Data(count: 300_000)]).body
    #expect(try await server.send("PUT", "/v1/blobs/large", fields, large).status == 201)
    let removal = try await server.send("DELETE", "/v1/blobs/there", fields)
    #expect(removal.status == 404 && removal["X-BlobCache-Remote"] == nil)
    // The present store follows the others.
    #expect(try await server.put("last", "x").status == 201)
    try await server.cache.close()
    #expect(objects.names == ["test/v1/la/last", "test/v1/th/there"])
  }

  /// A tier that leads back to its own server is reported, so that it is not asked again.
  @Test func aTierThatLeadsBackIsReported() async throws {
    let fields: HeaderFields = ["X-BlobCache-Tier": RemoteTier.sender]
    let server = try node()
    for method in ["GET", "HEAD", "PUT", "DELETE"] {
      #expect(try await server.send(method, "/v1/blobs/a", fields).status == 508)
    }
    #expect(objects.names == [])
    // A server without a tier forms no loop.
    #expect(try await TestServer().get("a", fields).status == 404)
  }

  /// A condition that requires a blob fails without one, so nothing is removed anywhere.
  @Test func aConditionThatFailsHereRemovesNothingThere() async throws {
    #expect(try await node().put("a", "hello").status == 201)
    let answer = try await node().send("DELETE", "/v1/blobs/a", ["If-Match": "*"])
    #expect(answer.status == 404)
    #expect(answer["X-BlobCache-Remote"] == nil)
    #expect(try await node().get("a").text == "hello")
  }

  @Test func theOverviewShowsTheTier() async throws {
    let page = try await used().page("").text
    #expect(page.contains("Beyond this machine"))
    #expect(page.contains("memory://&lt;b&gt;objects&lt;/b&gt;"))
    #expect(page.contains("<tr><td>Hits</td><td class=\"number\">1</td>"))
    #expect(page.contains("<tr><td>Misses</td><td class=\"number\">1</td>"))
  }

  @Test func nothingIsSaidWhereThereIsNoTier() async throws {
    let server = try TestServer()
    _ = try await server.put("a", "hello")
    #expect(try await !server.send("GET", "/metrics").text.contains("remote"))
    #expect(try await server.send("GET", "/status").text.split(separator: "\n").count == 1)
    #expect(try await !server.page("").text.contains("Beyond this machine"))
    #expect(try await server.send("DELETE", "/v1/blobs/a")["X-BlobCache-Remote"] == nil)
  }
}
