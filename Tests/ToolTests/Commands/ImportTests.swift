import Foundation
import TestSupport
import Testing

@Suite struct ImportTests {
  let tool: Tool

  init() throws {
    tool = try Tool()
  }

  @Test func theFilesOfADirectoryAreImported() async throws {
    try tool.create("source/a/b.png", "payload")
    try tool.create("source/.hidden", "")
    let run = try await tool.run("import", "cache", "source", "--ttl", "10m")
    #expect(run.status == 0)
    #expect(run.text == "cache: 1 imported, 7 B; 0 present, 0 expired, 1 skipped, 0 failed; ttl: 0 never, 0 default\n")
    #expect(try await tool.run("load", "cache", "a/b.png").text == "payload")
    let again = try await tool.run("import", "--json", "cache", "source").objects()
    #expect(again.contains { $0["key"] == .string("a/b.png") && $0["result"] == .string("present") })
    #expect(again.last?["type"] == .string("import"))
    #expect(again.last?["present"] == .integer(1))
  }

  @Test func oneFileThatFailsIsReportedAndTheRestImported() async throws {
    try tool.create("source/a/b", "no verbatim name")
    try tool.create("source/good", "good")
    let run = try await tool.run("import", "--naming", "verbatim", "cache", "source")
    #expect(run.status == 2)
    #expect(run.error.hasPrefix("blobcache: import \"a/b\": "))
    #expect(try await tool.run("load", "--naming", "verbatim", "cache", "good").text == "good")
  }

  @Test func anAbsentSourceCannotBeImported() async throws {
    let run = try await tool.run("import", "cache", "nowhere")
    #expect(run.status == 2)
    #expect(run.error == "blobcache: import: there is no such directory: nowhere; check the path\n")
  }

  @Test func aDryRunSaysWhatBecomesOfEachFileAndStoresNothing() async throws {
    try tool.create("source/a%2Fb", "payload")
    let run = try await tool.run("import", "--dry-run", "--format", "pincache", "cache", "source")
    #expect(run.status == 0)
    #expect(
      run.text == """
        a%2Fb: 7 B, key a/b, ttl never
        cache: 1 imported, 7 B; 0 present, 0 expired, 0 skipped, 0 failed; ttl: 1 never, 0 default; dry run

        """)
    #expect(run.error == "")
    #expect(try tool.directory.names() == ["source"])
    let objects = try await tool.run("import", "--dry-run", "--json", "--ttl", "1w", "cache", "source").objects()
    #expect(objects.first?["ttl"] == 604_800)
    #expect(objects.last?["dryRun"] == true)
  }

  @Test func filesThatLiveForTheDefaultAreSaidTo() async throws {
    try tool.create("source/a", "payload")
    let run = try await tool.run("import", "cache", "source")
    #expect(run.text.hasSuffix("ttl: 0 never, 1 default\n"))
    #expect(run.error.hasPrefix("blobcache: stored without --ttl: expires 10m after the last access"), "\(run.error)")
    for options in [["--quiet"], ["--json"], ["--ttl", "0"], ["--ttl", "never"]] {
      #expect(try await tool.run(arguments: ["import", "--replace", "cache", "source"] + options).error == "")
    }
  }
}
