import Foundation
import Testing

/// Spec/Semantics.md, C25: the tool reports records of a clock that was ahead, and a collection corrects them.
@Suite struct StampedAheadTests {
  let tool: Tool

  init() async throws {
    tool = try Tool(storesFiles: true)
    let run = try await tool.run(
      "store", "--ttl", "1d", "cache", "ahead", now: 4_000_000_000, input: Data("12345".utf8))
    #expect(run.status == 0, "\(run.error)")
  }

  @Test func listNamesThem() async throws {
    try await tool.store("12345", for: "right")
    let records = try await tool.run("list", "--json", "cache").objects()
    #expect(records.first { $0["key"] == "ahead" }?["stampedAhead"] == true)
    #expect(try #require(records.first { $0["key"] == "right" })["stampedAhead"] == nil)
    let text = try await tool.run("list", "cache").text
    #expect(text.contains("  ahead  (stamped by a clock that was ahead)\n"))
    #expect(text.hasSuffix("  right\n") || text.contains("  right\n"))
  }

  @Test func verifyNamesThem() async throws {
    let run = try await tool.run("verify", "cache")
    #expect(run.status == 0)
    #expect(
      run.text == """
        ahead      se/ahead: stamped 2096-10-02T07:06:40Z by a clock that was ahead; the next collection stamps it anew
        cache: 1 sound, 0 damaged, 0 unreadable; 0 temporary, 0 foreign; 1 from a clock that was ahead; 69 B checked

        """)
    let objects = try await tool.run("verify", "--json", "cache").objects()
    #expect(objects.first?["key"] == "ahead" && objects.first?["stampedAhead"] == true)
    #expect(objects.last?["stampedAhead"] == 1)
  }

  /// With an explicit clock, a pass only reports them; with the machine's clock, it corrects them.
  @Test func collectSetsThemRight() async throws {
    for arguments in [["collect"], ["collect", "--dry-run"]] {
      let run = try await tool.run(arguments: arguments + ["cache"])
      #expect(run.text.contains("; 1 from a clock that was ahead"))
      #expect(try await tool.run("list", "--json", "cache").objects().first?["updateTime"] == 4_000_000_000)
    }
    let run = try await tool.run("collect", "--json", "cache", now: nil)
    #expect(try run.objects().first?["stampedAhead"] == 1)
    let again = try await tool.run("collect", "cache", now: nil)
    #expect(again.text.contains("1 examined, 0 expired") && !again.text.contains("ahead"))
    #expect(try await tool.run("load", "cache", "ahead", now: 4_000_000_000).status == 1)
  }
}
