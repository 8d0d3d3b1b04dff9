import BlobStore
import Foundation
import SystemPackage
import TestSupport
import Testing

/// `blobcache stats`: the counters of all processes.
@Suite struct StatsTests {
  let tool: Tool

  init() throws { tool = try Tool() }

  @Test func everyProcessIsCounted() async throws {
    try await tool.store("12345", for: "key")
    #expect(try await tool.run("load", "cache", "key").status == 0)
    #expect(try await tool.run("load", "cache", "key").status == 0)
    #expect(try await tool.run("load", "cache", "missing").status == 1)
    // Collections with another clock than the system's are not recorded.
    #expect(try await tool.run("collect", "cache", now: nil).status == 0)
    let stats = try #require(try await tool.run("stats", "--json", "cache").objects().first)
    #expect(stats["type"] == "stats")
    #expect(stats["since"] == .integer(Tool.now))
    #expect(stats["hits"] == 2 && stats["memoryHits"] == 0 && stats["misses"] == 1)
    #expect(stats["hitRatio"] == .number(0.666667))
    #expect(stats["bytesServed"] == 10 && stats["stores"] == 1 && stats["bytesStored"] == 5)
    #expect(stats["collections"] == 1 && stats["collectedExpired"] == 1 && stats["collectedEvicted"] == 0)
    #expect(stats["evictedForSizeLimit"] == 0 && stats["meanEvictedAge"] == .null)
    guard case .array(let passes) = stats["passes"], case .object(let pass) = passes.first else {
      Issue.record("no passes: \(stats)")
      return
    }
    #expect(pass["expired"] == 1 && pass["hits"] == 2 && pass["misses"] == 1 && pass["stores"] == 1)
    let text = try await tool.run("stats", "cache").text
    #expect(text.contains("          1          0       69 B            2            1  66.7 %\n"))
    #expect(text.contains("\nhits                  2, 66.7 %\n"))
    #expect(text.hasPrefix("counted since         2023-11-14T22:13:20Z, now\n"))
  }

  @Test func zeroBeginsAnewOnceTheNumbersWerePrinted() async throws {
    try await tool.store("12345", for: "key")
    let first = try await tool.run("stats", "--json", "--zero", "cache", now: Tool.now + 60)
    #expect(try first.objects().first?["stores"] == 1)
    let second = try #require(try await tool.run("stats", "--json", "cache").objects().first)
    #expect(second["stores"] == 0 && second["since"] == .integer(Tool.now + 60) && second["hitRatio"] == .null)
  }

  @Test func theMetricsHaveThem() async throws {
    // This uses the system's time, because collections at other times are not recorded.
    _ = try await tool.run("store", "cache", "key", now: nil, input: Data("12345".utf8))
    _ = try await tool.run("load", "cache", "key", now: nil)
    _ = try await tool.run("load", "cache", "absent", now: nil)
    let collection = try await tool.run(
      "collect", "--size-limit", "1", "--metrics-file", "metrics", "cache", now: nil)
    #expect(collection.status == 0)
    let metrics = try String(contentsOf: tool.directory.url("metrics"), encoding: .utf8)
    let lines = [
      "hits_total{directory=\"cache\"} 1\n", "stored_bytes_total{directory=\"cache\"} 5\n",
      "hit_ratio{directory=\"cache\"} 0.5\n", "evicted_for_size_limit_total{directory=\"cache\"} 1\n",
      "evicted_by_trims_total{directory=\"cache\"} 0\n", "mean_evicted_age_seconds{directory=\"cache\"} ",
    ]
    for line in lines { #expect(metrics.contains("\nblobcache_" + line)) }
  }

  /// The counters of the remote tier are shown if there are any.
  @Test func aRemoteTierIsShown() async throws {
    try await tool.store("12345", for: "key")
    #expect(try await !tool.run("stats", "cache").text.contains("remote"))
    #expect(try await tool.run("stats", "--json", "cache").objects().first?["remote"] == nil)
    let store = try BlobStore(directory: FilePath(tool.directory.url("cache").path))
    _ = try store.load("key")
    var remote = BlobStore.RemoteTraffic()
    (remote.hits, remote.misses, remote.failures, remote.stores) = (1, 2, 3, 4)
    (remote.removals, remote.dropped, remote.bytesLoaded, remote.bytesStored) = (5, 6, 7, 2048)
    #expect(store.count(remote))
    let text = try await tool.run("stats", "cache").text
    for line in [
      "remote hits           1", "remote failures       3", "  given up            6", "bytes to there        2.0 KB",
    ] {
      #expect(text.contains("\n\(line)\n"), "\(text)")
    }
    let json = try await tool.run("stats", "--json", "cache").text
    let object =
      #"{"hits":1,"misses":2,"failures":3,"stores":4,"removals":5,"dropped":6,"bytesLoaded":7,"bytesStored":2048}"#
    #expect(json.contains("\"remote\":\(object),\"passes\":"), "\(json)")
  }

  @Test func whatIsNoCacheIsToldSo() async throws {
    try tool.create("other/file", "text")
    #expect(try await tool.run("stats", "other").status == 1)
    #expect(try await tool.run("stats", "absent").status == 2)
  }
}
