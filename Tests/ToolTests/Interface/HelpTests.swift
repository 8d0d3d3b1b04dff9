import BlobRecord
import Foundation
import TestSupport
import Testing

/// The help of every subcommand is part of the contract, so that a review sees each change.
///
/// To renew the snapshots: `BLOBCACHE_RENEW_SNAPSHOTS=1 swift test --filter HelpTests`.
@Suite struct HelpTests {
  static let subcommands = [
    "store", "load", "touch", "lock", "unlock", "remove", "extended-data", "list", "usage", "stats", "dump", "verify",
    "collect",
    "import", "configure", "serve", "view", "remote",
  ]

  @Test(arguments: [""] + subcommands) func helpIsAsItWas(subcommand: String) async throws {
    let arguments = subcommand.isEmpty ? ["--help"] : [subcommand, "--help"]
    let run = try await Tool().run(arguments: arguments, now: nil)
    #expect(run.status == 0)
    #expect(run.error == "")
    let name = subcommand.isEmpty ? "blobcache" : subcommand
    let snapshot = Checkout.url("Tests/ToolTests/Snapshots/\(name).txt")
    if ProcessInfo.processInfo.environment["BLOBCACHE_RENEW_SNAPSHOTS"] == "1" {
      try run.output.write(to: snapshot)
    }
    #expect(run.text == (try String(contentsOf: snapshot, encoding: .utf8)))
  }

  @Test func helpOfASubcommandCanBeAskedForBothWays() async throws {
    let tool = try Tool()
    let first = try await tool.run("help", "load", now: nil)
    let second = try await tool.run("load", "--help", now: nil)
    #expect(first.status == 0)
    #expect(first.text == second.text)
  }

  @Test(arguments: ["bogus", "--bogus"]) func whatIsNoSubcommandIsWrongUsage(argument: String) async throws {
    #expect(try await Tool().run(argument, now: nil).status == 64)
  }

  @Test(arguments: [["help", "bogus"], ["help", "load", "bogus"], ["bogus", "--help"], ["bogus", "cache"]])
  func whatIsNoSubcommandHasNoHelp(arguments: [String]) async throws {
    let run = try await Tool().run(arguments: arguments, now: nil)
    #expect(run.status == 64)
    #expect(run.text == "")
    #expect(run.error.hasPrefix("Error: There is no subcommand 'bogus'.\nUsage: blobcache "), "\(run.error)")
  }

  @Test(arguments: [["--version"], ["load", "--version"]]) func theVersionIsThatOfThePackage(
    arguments: [String]
  ) async throws {
    let run = try await Tool().run(arguments: arguments, now: nil)
    #expect(run.status == 0)
    let version = run.text.trimmingCharacters(in: .newlines)
    #expect(version.wholeMatch(of: /\d+\.\d+\.\d+/) != nil)
    // The version that the README recommends is the current one.
    for match in try Checkout.text("README.md").matches(of: /from: "([^"]+)"/) {
      #expect(match.1 == version)
    }
  }

  @Test(arguments: [["--version", "--json"], ["load", "--version", "--json"]])
  func theVersionInJSONNamesTheLibraryOfChecksums(arguments: [String]) async throws {
    let run = try await Tool().run(arguments: arguments, now: nil)
    #expect(run.status == 0)
    let plain = try await Tool().run("--version", now: nil).text.trimmingCharacters(in: .newlines)
    #expect(
      run.text == "{\"type\":\"version\",\"version\":\"\(plain)\",\"checksums\":\"\(CRC32.library)\"}\n")
  }

  @Test(arguments: subcommands) func aSubcommandWithoutArgumentsIsWrongUsage(subcommand: String) async throws {
    #expect(try await Tool().run(subcommand, now: nil).status == 64)
  }
}
