import Foundation
import SystemPackage
import TestSupport
import Testing

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#elseif canImport(Darwin)
  import Darwin
#endif

/// `collect --every`, tested from outside. Intervals are at least a minute, so this suite sees first passes, and only
/// once a second one. `ScheduleTests` tests repetitions.
@Suite(.timeLimit(.minutes(30))) struct CollectionServiceTests {
  let tool: Tool

  init() throws {
    tool = try Tool()
  }

  private func service(_ arguments: String..., environment: [String: String] = [:]) throws -> ToolService {
    try ToolService(arguments, in: tool.directory, environment: environment)
  }

  private func path(_ name: String) -> String { tool.directory.url(name).path }

  /// Creates caches with one expired record each, stored long ago.
  private func makeCaches(_ names: String...) async throws {
    for name in names {
      let run = try await tool.run("store", name, "key", "--ttl", "1m", input: Data("12345".utf8))
      #expect(run.status == 0, "\(run.error)")
    }
  }

  private func writeConfiguration(_ text: String) throws {
    try tool.create("config.json", text.replacing("DIR", with: tool.directory.path.string))
  }

  @Test(arguments: [SIGTERM, SIGINT]) func aServiceCollectsUntilItIsToldToStop(signal: Int32) async throws {
    try await makeCaches("one", "two")
    let service = try service("one", "missing", "two", "--every", "6m", "--json", "--metrics-file", "metrics")
    let passes = [try await service.nextObject(), try await service.nextObject()]
    #expect(Set(passes.map { $0["directory"] }) == ["one", "two"])
    #expect(passes.allSatisfy { $0["type"] == "collection" && $0["expired"] == 1 })
    try await service.nextMessage(containing: "missing")
    #expect(await service.stop(signal) == 0)
    #expect(await service.remainingOutput() == [])

    let metrics = try Metrics(tool.directory.url("metrics"))
    #expect(metrics["blobcache_collection_expired_total", "two"] == "1")
    #expect(metrics["blobcache_collection_failures_total", "missing"] == "1")
    #expect(metrics["blobcache_bytes", "one"] == "0")
    // The file is replaced atomically, without leaving a temporary file.
    #expect(try tool.directory.names() == ["metrics", "one", "two"])
  }

  /// The interval is the shortest allowed.
  @Test func passesComeAgain() async throws {
    try await makeCaches("cache")
    let service = try service("cache", "--every", "1m", "--jitter", "0s", "--json")
    #expect(try await service.nextObject()["expired"] == 1)
    try await makeCaches("cache")
    #expect(try await service.nextExpiry()["expired"] == 1)
    #expect(await service.stop() == 0)
  }

  @Test func textIsForPeople() async throws {
    try await makeCaches("cache")
    let service = try service("cache", "--every", "1s")
    try await service.nextMessage(containing: "raised to")
    #expect(await service.stop() == 0)
    #expect(await service.remainingOutput().allSatisfy { $0.hasPrefix("cache: 1 examined") })
  }

  @Test func aHangupHasTheConfigurationReadAgain() async throws {
    try await makeCaches("one", "two", "three")
    try writeConfiguration(#"{"every": "6m", "directories": {"DIR/one": {}, "DIR/two": {"sizeLimit": "1GiB"}}}"#)
    let service = try service("--config", "config.json", "--json", "--metrics-file", "metrics")
    let first = [try await service.nextObject(), try await service.nextObject()].map { $0["directory"] }
    #expect(Set(first) == [.string(path("one")), .string(path("two"))])

    try writeConfiguration(#"{"every": "6m", "directories": {"DIR/three": {}, "DIR/two": {"sizeLimit": "1GiB"}}}"#)
    service.send(SIGHUP)
    #expect(try await service.nextObject()["directory"] == .string(path("three")))
    var metrics = try await metricsOnceRead(service)
    #expect(metrics["blobcache_collection_passes_total", path("one")] == nil)
    #expect(metrics["blobcache_collection_passes_total", path("two")] == "1")
    #expect(metrics["blobcache_size_limit_bytes", path("two")] == "1073741824")
    #expect(metrics["blobcache_configuration_sound"] == "1")

    try writeConfiguration(#"{"every": "6m", "directories": {"DIR/two": {"sizelimit": "1GiB"}}}"#)
    service.send(SIGHUP)
    let message = try await service.nextMessage(containing: "stays as it was")
    #expect(message.contains("config.json") && message.contains("sizelimit"))
    #expect(await service.stop() == 0)
    metrics = try Metrics(tool.directory.url("metrics"))
    #expect(metrics["blobcache_configuration_sound"] == "0")
    #expect(metrics["blobcache_collection_passes_total", path("three")] == "1")
  }

  /// Returns the metrics after the service has reported that it has read its configuration.
  private func metricsOnceRead(_ service: ToolService) async throws -> Metrics {
    try await service.nextMessage(containing: "read again")
    service.send(SIGHUP)
    try await service.nextMessage(containing: "read again")
    return try Metrics(tool.directory.url("metrics"))
  }

  @Test func anIntervalFromTheEnvironmentMakesAService() async throws {
    try await makeCaches("cache")
    let service = try service("cache", "--json", environment: ["BLOBCACHE_EVERY": "6m"])
    #expect(try await service.nextObject()["expired"] == 1)
    // If the interval were ignored, the service would have ended after one pass.
    service.send(SIGHUP)
    try await service.nextMessage(containing: "read again")
    #expect(await service.stop() == 0)
  }

  @Test func ofTwoServicesOneMakesThePass() async throws {
    try await makeCaches("cache")
    let first = try service("cache", "--every", "6m", "--json")
    #expect(try await first.nextObject()["expired"] == 1)
    let second = try service("cache", "--every", "6m", "--json")
    let skipped = try await second.nextObject()
    #expect(skipped["type"] == "skipped")
    #expect(skipped["directory"] == "cache")
    #expect(skipped["lastCollectionAt"] != nil)
    #expect(await second.stop() == 0)
    #expect(await second.remainingOutput() == [])
    #expect(await first.stop() == 0)
  }

  @Test func manyDirectoriesAreCollectedSideBySide() async throws {
    let names = (0..<20).map { "cache\($0)" }
    for name in names { try await makeCaches(name) }
    let service = try ToolService(
      names + ["--every", "6m", "--json", "--parallel", "8", "--metrics-file", "metrics"], in: tool.directory)
    var seen: Set<JSONValue?> = []
    for _ in names { seen.insert(try await service.nextObject()["directory"]) }
    #expect(seen.count == names.count)
    #expect(await service.stop() == 0)
    let metrics = try Metrics(tool.directory.url("metrics"))
    for name in names { #expect(metrics["blobcache_collection_passes_total", name] == "1") }
  }

  @Test func aMetricsFileThatCannotBeWrittenStopsNothing() async throws {
    try await makeCaches("cache")
    let service = try service("cache", "--every", "6m", "--json", "--metrics-file", "missing/metrics")
    #expect(try await service.nextObject()["expired"] == 1)
    try await service.nextMessage(containing: "metrics cannot be written")
    #expect(await service.stop() == 0)
    let run = try await tool.run("collect", "cache", "--metrics-file", "missing/metrics")
    #expect(run.status == 2)
  }

  @Test func onePassWritesMetricsToo() async throws {
    try await makeCaches("cache", "new\nline \"quoted\" \\")
    let run = try await tool.run("collect", "cache", "new\nline \"quoted\" \\", "--metrics-file", "metrics", now: nil)
    #expect(run.status == 0)
    let metrics = try Metrics(tool.directory.url("metrics"))
    #expect(metrics["blobcache_collection_expired_total", #"new\nline \"quoted\" \\"#] == "1")
    #expect(try await tool.run("collect", "cache", "--dry-run", "--metrics-file", "none", now: nil).status == 0)
    #expect(try tool.directory.names().contains("none") == false)
  }
}

/// A strict parser of Prometheus' text format.
private struct Metrics {
  private var samples: [String: String] = [:]

  struct Malformed: Error {
    let line: Substring
  }

  init(_ url: URL) throws {
    let text = try String(contentsOf: url, encoding: .utf8)
    #expect(text.hasSuffix("\n"))
    var described = ""
    var typed = ""
    for line in text.split(separator: "\n") {
      if let match = line.wholeMatch(of: /# HELP ([a-z_]+) [A-Z].*\./) {
        described = String(match.1)
      } else if let match = line.wholeMatch(of: /# TYPE ([a-z_]+) (counter|gauge)/) {
        typed = String(match.1)
        #expect(typed == described)
        #expect(typed.hasSuffix("_total") == (match.2 == "counter"))
      } else if let match = line.wholeMatch(of: /([a-z_]+)(\{directory="(([^"\\]|\\[n"\\])*)"\})? ([0-9.e-]+)/) {
        #expect(match.1 == typed)
        let before = samples.updateValue(String(match.5), forKey: "\(match.1) \(match.3 ?? "")")
        #expect(before == nil, "\(line) is there twice")
      } else {
        throw Malformed(line: line)
      }
    }
  }

  subscript(_ name: String, _ directory: String = "") -> String? { samples["\(name) \(directory)"] }
}
