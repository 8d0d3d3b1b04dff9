import TestSupport
import Testing

/// Messages are for who gave the subcommand: the methods of the library that it calls are nothing to them.
@Suite struct MessageTests {
  let tool: Tool

  init() throws {
    tool = try Tool()
  }

  @Test(arguments: [
    ["list"], ["usage"], ["usage", "--fast"], ["verify"], ["dump"], ["collect"], ["remove", "--all"],
    ["remove", "--locked"],
  ])
  func aFailureIsNamedByTheSubcommand(arguments: [String]) async throws {
    try tool.create("file")
    for directory in ["missing", "file/below"] {
      let run = try await tool.run(arguments: arguments + [directory])
      #expect(run.status == 2)
      #expect(run.error.hasPrefix("blobcache: \(arguments[0]): "), "\(run.error)")
      #expect(run.error.split(separator: "\n").count == 1)
    }
  }

  @Test(arguments: ["load", "touch", "lock", "unlock", "remove"])
  func aFailureWithAKeyNamesIt(subcommand: String) async throws {
    let run = try await tool.run(subcommand, "--json", "missing", "key")
    #expect(run.status == 2)
    #expect(run.error == "blobcache: \(subcommand) \"key\": there is no such directory: missing\n")
    guard subcommand != "load" else { return }
    #expect(
      try run.objects().map { $0["message"] } == [.string("\(subcommand) \"key\": there is no such directory: missing")]
    )
  }

  @Test func aPathOfNothingIsNamedByTheSubcommand() async throws {
    let run = try await tool.run("list", "")
    #expect(run.status == 2)
    #expect(run.error == "blobcache: list: the directory's path is empty: \n")
  }

  @Test func whatMayBeNoCacheIsNotRemoved() async throws {
    try tool.create("home/no/notes.txt", "buy milk")
    let run = try await tool.run("remove", "--all", "home")
    #expect(run.status == 2)
    #expect(run.error.hasPrefix("blobcache: remove: there is no control file "), "\(run.error)")
  }
}
