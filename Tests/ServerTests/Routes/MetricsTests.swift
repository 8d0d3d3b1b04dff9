import BlobCache
import BlobCacheServer
import Foundation
import SystemPackage
import Testing

@Suite struct MetricsTests {
  let server: TestServer

  init() throws { server = try TestServer() }

  @Test func requestsAreCountedByWhatTheyWere() async throws {
    _ = try await server.put("a", "hello")
    for _ in 0..<2 { _ = try await server.get("a") }
    _ = try await server.get("none")
    _ = try await server.send("BREW", "/v1/blobs/a")
    _ = try await server.send("GET", "/elsewhere")
    let answer = try await server.send("GET", "/metrics")
    #expect(answer["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8")
    let lines = answer.text.split(separator: "\n")
    let name = "blobcache_http_requests_total"
    #expect(
      lines.filter { $0.hasPrefix(name) } == [
        "\(name){route=\"blob\",method=\"GET\",status=\"200\"} 2",
        "\(name){route=\"blob\",method=\"GET\",status=\"404\"} 1",
        "\(name){route=\"blob\",method=\"PUT\",status=\"201\"} 1",
        "\(name){route=\"blob\",method=\"other\",status=\"501\"} 1",
        "\(name){route=\"none\",method=\"GET\",status=\"404\"} 1",
      ])
    #expect(lines.contains("# TYPE \(name) counter"))
  }

  @Test func theDirectorysCountsAreShown() async throws {
    _ = try await server.put("a", "hello")
    _ = try await server.cache.collect()
    let text = try await server.send("GET", "/metrics").text
    #expect(text.contains("\nblobcache_stores_total{directory=\"\(server.cache.directory)\"} 1\n"))
    #expect(text.contains("\nblobcache_stored_bytes_total{directory=\"\(server.cache.directory)\"} 5\n"))
    #expect(text.contains("\nblobcache_records{directory=\"\(server.cache.directory)\"} 1\n"))
  }

  /// Each line is a comment, or a name with labels and an integer.
  @Test func theTextIsPrometheus() async throws {
    _ = try await server.put("a", "hello")
    for line in try await server.send("GET", "/metrics").text.split(separator: "\n") where !line.hasPrefix("#") {
      #expect(line.wholeMatch(of: /[a-z_]+\{([a-z]+="[^"]*",?)+\} \d+/) != nil, "\(line)")
    }
  }
}
