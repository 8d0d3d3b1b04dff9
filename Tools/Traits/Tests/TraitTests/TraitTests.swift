import BlobCache
import BlobCacheServer
import Foundation
import InMemoryTracing
import Metrics
import MetricsTestKit
import SystemPackage
import Testing
import Tracing

/// The metrics and traces of a cache with the package's traits, in a program that has bootstrapped their backends.
@Suite(.serialized) struct TraitTests {
  private static let metrics: TestMetrics = {
    let metrics = TestMetrics()
    MetricsSystem.bootstrap(metrics)
    return metrics
  }()

  private static let tracer: InMemoryTracer = {
    let tracer = InMemoryTracer()
    InstrumentationSystem.bootstrap(tracer)
    return tracer
  }()

  private func withCache(
    _ change: (inout BlobCache.Configuration) -> Void = { _ in }, _ body: (BlobCache) async throws -> Void
  ) async throws {
    let directory = FileManager.default.temporaryDirectory.appending(path: "BlobCache-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: directory) }  // a leftover directory is harmless
    var configuration = BlobCache.Configuration()
    // Memory pressure of other programs must not change the counts.
    configuration.memory?.respondsToMemoryPressure = false
    change(&configuration)
    let cache = try BlobCache(directory: FilePath(directory.path), configuration: configuration)
    try await body(cache)
    try await cache.close()
  }

  @Test func eventsAreCountedAndTimed() async throws {
    let metrics = Self.metrics
    metrics.reset()
    try await withCache { cache in
      let name = [("cache", cache.directory.string)]
      func count(_ label: String, _ tier: String? = nil) -> Int64 {
        metrics.counterTotal(label: "blobcache." + label, dimensions: name + (tier.map { [("tier", $0)] } ?? []))
      }
      try await cache.store(Data(count: 100), for: "a", ttl: .seconds(60))
      _ = try await cache.load("a")
      cache.removeAllFromMemory()
      _ = try await cache.load("a")
      _ = try await cache.load("b")
      _ = try await cache.load("c") { Data(count: 10) }
      try await cache.remove("c")
      try await cache.trim(to: .payloads(upTo: 50))
      #expect(count("stores") == 2)
      #expect(count("stored_bytes") == 110)
      #expect(count("hits", "memory") == 1)
      #expect(count("hits", "disk") == 1)
      #expect(count("loaded_bytes") == 200)
      #expect(count("misses") == 2)
      #expect(count("productions") == 1)
      #expect(count("removals") == 1)
      #expect(count("evicted", "disk") == 1)
      #expect(count("evicted", "memory") == 0)
      #expect(count("collections") == 1)
      #expect(try metrics.expectTimer("blobcache.store", name).values.count == 2)
      #expect(try metrics.expectTimer("blobcache.load", name).values.count == 1)
      #expect(try metrics.expectTimer("blobcache.production", name).values.count == 1)
    }
  }

  /// A20: write-behind stores and productions with repeated lookups are counted once.
  @Test func nothingIsCountedTwice() async throws {
    let metrics = Self.metrics
    metrics.reset()
    try await withCache {
      $0.writing = .behind(BlobCache.WriteBehind())
    } _: { cache in
      let name = [("cache", cache.directory.string)]
      func count(_ label: String) -> Int64 { metrics.counterTotal(label: "blobcache." + label, dimensions: name) }
      try await cache.store(Data(count: 100), for: "a")
      try await cache.flush()
      _ = try await cache.load("b", options: ProductionOptions(acrossProcesses: true)) { Data(count: 10) }
      #expect(count("stores") == 2)
      #expect(count("stored_bytes") == 110)
      #expect(count("misses") == 1)
      #expect(count("productions") == 1)
      #expect(try metrics.expectTimer("blobcache.store", name).values.count == 2)
    }
  }

  @Test func whatGoesToDiskMakesASpan() async throws {
    let tracer = Self.tracer
    try await withCache { cache in
      tracer.clearFinishedSpans()
      try await cache.store(Data(count: 10), for: "on disk")
      _ = try await cache.load("on disk")
      cache.removeAllFromMemory()
      _ = try await cache.load("on disk")
      await #expect(throws: BlobStoreError.self) { try await cache.store(Data(), for: "") }
      // The tracer is global, so other suites create spans too.
      let spans = tracer.popFinishedSpans().filter {
        [.string("on disk"), .string("")].contains($0.attributes["blobcache.key"]?.toSpanAttribute())
      }
      // The load from memory creates no span.
      #expect(spans.map(\.operationName) == ["blobcache.store", "blobcache.load", "blobcache.store"])
      #expect(spans.first?.attributes["blobcache.key"]?.toSpanAttribute() == .string("on disk"))
      #expect(spans.map(\.errors.count) == [0, 0, 1])
    }
  }

  @Test func aRequestMakesASpanAboveTheCachesOwn() async throws {
    let tracer = Self.tracer
    try await withCache { cache in
      let responder = BlobResponder(cache: cache)
      tracer.clearFinishedSpans()
      let fields: HeaderFields = [
        "Host": "localhost", InMemoryTracer.traceIDKey: "sent", InMemoryTracer.spanIDKey: "1",
      ]
      for (method, status) in [("PUT", 201), ("GET", 200)] {
        let body: MessageBody = method == "PUT" ? .bytes(Data("one".utf8)) : .none
        let request = ServerRequest(method: method, target: "/v1/blobs/a", fields: fields, body: body)
        #expect(await responder.respond(to: request).status == status)
      }
      let spans = tracer.popFinishedSpans().filter { $0.traceID == "sent" }
      let requests = spans.filter { $0.operationName == "blobcache.request" }
      #expect(requests.map(\.kind) == [.server, .server])
      #expect(
        requests.compactMap { $0.attributes["http.response.status_code"]?.toSpanAttribute() } == [
          .int64(201), .int64(200),
        ])
      #expect(requests.allSatisfy { $0.traceID == "sent" && $0.parentSpanID == "1" })
      let store = try #require(spans.first { $0.operationName == "blobcache.store" })
      #expect(store.parentSpanID == requests.first?.spanID)
    }
  }
}
