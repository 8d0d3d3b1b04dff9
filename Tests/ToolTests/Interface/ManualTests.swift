import Foundation
import TestSupport
import Testing

/// Tools/manual and the shell completions, which are generated from the help.
@Suite struct ManualTests {
  private static let script = Checkout.url("Tools/manual")
  private static let hasGroff = FileManager.default.isExecutableFile(atPath: "/usr/bin/groff")

  let tool: Tool

  init() throws {
    tool = try Tool()
  }

  private func manual() async throws -> String {
    let run = try await tool.execute([Self.script.path, Tool.executable.path])
    #expect(run.status == 0, "\(run.error)")
    return run.text
  }

  @Test func theManualHasEverySubcommandAndOption() async throws {
    let page = try await manual()
    let help = try await tool.run("--experimental-dump-help", now: nil).text
    for subcommand in HelpTests.subcommands {
      #expect(page.contains("\n.SS \(subcommand.replacing("-", with: "\\-"))\n"))
    }
    var count = 0
    for match in help.matches(of: /"kind" : "long",\s+"name" : "([^"]+)"/) where match.1 != "no-flat" {
      #expect(page.contains("\\-\\-" + match.1.replacing("-", with: "\\-")), "\(match.1)")
      count += 1
    }
    #expect(count > 100)
    #expect(page.components(separatedBy: "\n.RS 4\n").count == 2 * HelpTests.subcommands.count + 1)
    #expect(page.contains("$ blobcache store cache album/42 cover.png \\-\\-ttl 6h"))
  }

  @Test(.enabled(if: hasGroff, "needs groff")) func theManualIsRoffWithoutMistakes() async throws {
    try tool.create("blobcache.1", try await manual())
    let run = try await tool.execute(["groff", "-man", "-Tutf8", "-ww", "blobcache.1"])
    #expect(run.status == 0)
    #expect(run.error == "")
    #expect(run.text.contains("blobcache - "))
  }

  @Test(arguments: ["bash", "zsh", "fish"]) func completionsAreMadeForEachShell(shell: String) async throws {
    let run = try await tool.run("--generate-completion-script", shell, now: nil)
    #expect(run.status == 0, "\(run.error)")
    for subcommand in HelpTests.subcommands { #expect(run.text.contains(subcommand)) }
    #expect(run.text.contains("size-limit"))
  }

  /// A shell loads the script without an error, and completes subcommands.
  @Test func bashCompletesASubcommand() async throws {
    try tool.create("completion", try await tool.run("--generate-completion-script", "bash", now: nil).text)
    let script = #"source ./completion && complete -p blobcache && bash -n completion"#
    let run = try await tool.execute(["bash", "-c", script])
    #expect(run.status == 0, "\(run.error)")
    #expect(run.text.contains("complete -o filenames -F _blobcache blobcache"), "\(run.text)")
  }
}
