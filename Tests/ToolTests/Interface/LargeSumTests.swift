import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import BlobCacheCommands
@testable import BlobStore

/// File systems allow sparse files of almost 2^63 bytes; the sum of their sizes is capped at the largest number.
@Suite struct LargeSumTests {
  private static let largest = UInt64(Int64.max)

  /// A Boolean value that indicates whether the in-memory file system allows files of the largest size.
  private static let hasLargeFiles: Bool = {
    guard let directory = try? TemporaryDirectory(inMemory: true) else { return false }
    return (try? makeLargest(directory.url("file"))) != nil
  }()

  private static func makeLargest(_ url: URL) throws {
    if !FileManager.default.fileExists(atPath: url.path) { try Data().write(to: url) }
    let file = try FileHandle(forWritingTo: url)
    defer { try? file.close() }
    try file.truncate(atOffset: largest)
  }

  /// Returns a cache with two damaged files of the largest size.
  private func damagedCache() async throws -> Tool {
    let tool = try Tool(inMemory: true, storesFiles: true)
    for (key, file) in [("ab", "3a/ab"), ("cd", "v2/cd")] {
      try await tool.store("1", for: key)
      try Self.makeLargest(tool.directory.url("cache/" + file))
    }
    return tool
  }

  @Test(.enabled(if: hasLargeFiles, "no file system here has files of 2^63-1 bytes")) func usageHoldsItsSums()
    async throws
  {
    let tool = try await damagedCache()
    // The second name is one that the recycling bin generates (Spec/ControlFile.md).
    for name in [".quarantine/file", ".recycled/f-ffff" + String(repeating: "-", count: 224)] {
      try tool.create("cache/" + name)
      try Self.makeLargest(tool.directory.url("cache/" + name))
    }
    let json = try #require(try await tool.run("usage", "--json", "cache").objects().first)
    for field in ["bytes", "damagedBytes", "quarantinedBytes", "recycledBytes"] {
      #expect(json[field] == .integer(.max), "\(field)")
    }
    let text = try await tool.run("usage", "cache")
    #expect(text.status == 0)
    #expect(text.text.contains("\nrecycled files                1  9223372.0 TB\n"), "\(text.text)")
    #expect(!text.text.contains("-"), "\(text.text)")
  }

  @Test(
    .enabled(if: hasLargeFiles, "no file system here has files of 2^63-1 bytes"),
    arguments: [
      (["verify"], "bytes", 1), (["collect", "--dry-run"], "bytesFreed", 0), (["collect"], "bytesFreed", 0),
      (["remove", "--all"], "bytes", 0),
    ])
  func othersHoldTheirSums(arguments: [String], field: String, status: Int32) async throws {
    let tool = try await damagedCache()
    let run = try await tool.run(arguments: arguments + ["--json", "cache"], now: Tool.now + 10_000)
    #expect(run.status == status, "\(run.error)")
    #expect(try run.objects().last?[field] == .integer(.max), "\(run.text)")
  }

  @Test(.enabled(if: hasLargeFiles, "no file system here has files of 2^63-1 bytes"))
  func aProgressBarHoldsItsSums() async throws {
    let tool = try await damagedCache()
    let terminal = try PseudoTerminal(columns: 80)
    let run = try await tool.execute(
      [Tool.executable.path, "verify", "cache"], environment: ["TERM": "xterm"], error: .handle(terminal.device))
    #expect(run.status == 1)
    #expect(terminal.finish().contains("9223372.0 TB checked"))
  }

  @Test func metricsHoldTheirSums() throws {
    let plan = try CollectionPlan(directories: ["cache"], commandLine: [:], file: nil)
    var metrics = CollectionMetrics(plan)
    var report = BlobStore.CollectionReport(directory: "cache")
    report.bytesFreed = .max
    for directory in plan.directories + plan.directories { metrics.add(report, to: directory) }
    #expect(metrics.text.contains("\nblobcache_collection_freed_bytes_total{directory=\"cache\"} \(Int64.max)\n"))
  }
}
