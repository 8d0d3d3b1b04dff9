import Foundation
import TestSupport
import Testing

/// The examples at the end of each subcommand's help are commands that work.
@Suite struct ExampleTests {
  let tool: Tool

  init() throws {
    tool = try Tool()
  }

  private func sh(_ script: String) async throws -> Tool.Run {
    let products = Tool.executable.deletingLastPathComponent().path
    return try await tool.execute(["sh", "-c", script], environment: ["PATH": "\(products):/usr/bin:/bin"])
  }

  /// Creates the files and records that the examples use.
  private func prepare() async throws {
    for file in ["cover.png", "photos/1.jpg"] { try tool.create(file, "picture") }
    let made = try await sh(
      """
      set -e
      for key in album/42 album/43; do blobcache store cache $key cover.png --ttl 1w; done
      blobcache lock cache album/42
      blobcache collect cache
      mkdir com.pinterest.PINDiskCache.covers
      """)
    #expect(made.status == 0, "\(made.error)")
  }

  // Examples of servers, which do not end, and of remote tiers are excluded.
  @Test(arguments: HelpTests.subcommands.filter { !["serve", "view", "remote"].contains($0) })
  func theHelpEndsWithTwoExamplesThatWork(subcommand: String) async throws {
    let help = try await tool.run(subcommand, "--help", now: nil).text
    let parts = help.components(separatedBy: "\nEXAMPLES:\n")
    try #require(parts.count == 2)
    let commands = parts[1].split(separator: "\n").filter { $0.hasPrefix("    $ ") }.map { String($0.dropFirst(6)) }
    #expect(commands.count == 2)
    for command in commands {
      #expect(command.contains("blobcache \(subcommand) "))
      try await prepare()
      let run = try await sh(command)
      #expect(run.status == 0, "\(command): \(run.error)")
      try FileManager.default.removeItem(at: tool.directory.url("cache"))
      try FileManager.default.removeItem(at: tool.directory.url("com.pinterest.PINDiskCache.covers"))
    }
  }
}
