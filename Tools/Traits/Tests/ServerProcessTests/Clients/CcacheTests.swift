import BlobRecord
import BlobStore
import Foundation
import Testing

/// The installed ccache with each of its layouts: a miss, a store, and a hit.
@Suite(
  .serialized, .timeLimit(.minutes(5)),
  .enabled(if: ClientPrograms.areInstalled("ccache", "gcc"), "there is no ccache with a gcc"))
struct CcacheTests {
  let workplace: Workplace

  init() throws {
    workplace = try Workplace()
    workplace.environment["CCACHE_DIR"] = workplace.folder.appending(path: "local").path
    try workplace.write("int answer(void) { return 42; }\n", to: "a.c")
  }

  /// - Returns: The server-related counters of ccache since its local cache was created.
  private func compile() throws -> [String: Int] {
    try workplace.remove("local", "a.o")
    try workplace.run("ccache", "gcc", "-c", "a.c", "-o", "a.o")
    #expect(workplace.exists("a.o"))
    var counts: [String: Int] = [:]
    for line in try workplace.run("ccache", "--print-stats").split(separator: "\n") {
      let pair = line.split(separator: "\t")
      if pair.count == 2 { counts[String(pair[0])] = Int(pair[1]) }
    }
    return counts
  }

  @Test(arguments: ["flat", "subdirs", "bazel"], [false, true])
  func whatWasCompiledIsNotCompiledAgain(layout: String, needsToken: Bool) throws {
    let server = try ServerProcess(needsToken ? workplace.tokenOptions(keyPrefix: "ccache/") : [])
    workplace.environment["CCACHE_REMOTE_STORAGE"] =
      "\(server.address)ccache|layout=\(layout)" + (needsToken ? "|bearer-token=\(Workplace.token)" : "")
    let first = try compile()
    #expect(first["remote_storage_hit"] == 0)
    #expect(first["remote_storage_miss"] == 1)
    // The keys of a manifest and of a result.
    let keys = try server.store().records(prefix: "ccache/").compactMap(\.key?.string)
    #expect(keys.count == 2)
    let form =
      switch layout {
      case "flat": /ccache\/\w{30,}/
      case "subdirs": /ccache\/\w\w\/\w{30,}/
      default: /ccache\/ac\/[0-9a-f]{64}/
      }
    for key in keys { #expect(key.wholeMatch(of: form) != nil, "\(key)") }
    let second = try compile()
    #expect(second["remote_storage_hit"] == 1)
    #expect(second["remote_storage_miss"] == 0)
    #expect(second["cache_miss"] == 0)
    for counts in [first, second] {
      #expect(counts["remote_storage_error"] == 0)
      #expect(counts["remote_storage_timeout"] == 0)
    }
  }

  /// A damaged result is a miss, and the file is compiled again.
  @Test func aDamagedResultIsAMiss() throws {
    // Without this limit, the intact result would be served from memory.
    let server = try ServerProcess(["--memory", "1"])
    workplace.environment["CCACHE_REMOTE_STORAGE"] = "\(server.address)ccache|layout=flat"
    _ = try compile()
    #expect(try server.damageRecords(prefix: "ccache/") > 0)
    let counts = try compile()
    #expect(counts["remote_storage_error"] == 0)
    #expect(counts["remote_storage_hit"] == 0)
    #expect(counts["cache_miss"] == 1)
  }
}
