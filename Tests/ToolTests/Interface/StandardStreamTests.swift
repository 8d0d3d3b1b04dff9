import Foundation
import Testing

@Suite struct StandardStreamTests {
  let tool: Tool

  init() throws {
    tool = try Tool()
  }

  private static let commands = [
    ["list", "cache"], ["usage", "cache"], ["verify", "cache"], ["dump", "--hex", "cache"], ["lock", "cache", "key"],
    ["load", "cache", "key"], ["collect", "cache"],
  ]

  @Test(arguments: commands) func aReaderThatIsGoneIsNoFailure(command: [String]) async throws {
    try await tool.store("1", for: "key")
    let pipe = Pipe()
    try pipe.fileHandleForReading.close()
    let run = try await tool.run(arguments: command, sink: .handle(pipe.fileHandleForWriting))
    #expect(run.status == 0)
    #expect(run.error == "")
  }

  @Test(.enabled(if: FileManager.default.fileExists(atPath: "/dev/full")), arguments: commands)
  func aFullDiskIsAFailure(command: [String]) async throws {
    try await tool.store("1", for: "key")
    let full = try #require(FileHandle(forWritingAtPath: "/dev/full"))
    let run = try await tool.run(arguments: command, sink: .handle(full))
    #expect(run.status == 2)
    #expect(run.error == "blobcache: write(2): No space left on device: standard output\n")
  }

  private static let questions = [["--help"], ["help", "load"], ["load", "--help"], ["--version"], []]

  @Test(.enabled(if: FileManager.default.fileExists(atPath: "/dev/full")), arguments: questions)
  func helpThatCannotBeWrittenIsAFailure(arguments: [String]) async throws {
    let full = try #require(FileHandle(forWritingAtPath: "/dev/full"))
    let run = try await tool.run(arguments: arguments, now: nil, sink: .handle(full))
    #expect(run.status == 2)
    #expect(run.error == "blobcache: write(2): No space left on device: standard output\n")
  }

  @Test(arguments: questions) func whoReadsNoHelpMakesNoFailure(arguments: [String]) async throws {
    let pipe = Pipe()
    try pipe.fileHandleForReading.close()
    let run = try await tool.run(arguments: arguments, now: nil, sink: .handle(pipe.fileHandleForWriting))
    #expect(run.status == 0)
    #expect(run.error == "")
  }

  @Test func aClosedStandardOutputIsNoRecord() async throws {
    try await tool.store("1", for: "key")
    let wrapper = ["sh", "-c", #"exec "$0" "$@" >&-"#]
    #expect(try await tool.run("load", "cache", "key", wrapper: wrapper).status == 2)
    #expect(try await tool.run("verify", "cache").status == 0)
  }

  @Test func aClosedStandardInputIsNoEmptyBlob() async throws {
    let wrapper = ["sh", "-c", #"exec "$0" "$@" <&-"#]
    #expect(try await tool.run("store", "cache", "key", wrapper: wrapper).status == 2)
  }

  /// The script(1) of util-linux provides a terminal. On other systems it has other arguments.
  private static let hasScript = {
    #if os(Linux)
      FileManager.default.isExecutableFile(atPath: "/usr/bin/script")
    #else
      false
    #endif
  }()

  /// Returns the tool's output on a terminal.
  private func printed(_ environment: [String: String]) async throws -> String {
    let wrapper = ["sh", "-c", #"exec script -qec "$0 $*" /dev/null"#]
    let run = try await tool.run("list", "cache", environment: environment, wrapper: wrapper)
    #expect(run.status == 0)
    return run.text
  }

  @Test(.enabled(if: hasScript, "needs script(1) of util-linux"))
  func onlyATerminalThatWantsThemGetsColours() async throws {
    try await tool.store("1", for: "key")
    #expect(try await tool.run("list", "cache", environment: ["TERM": "xterm"]).text.contains("\u{1B}") == false)
    #expect(try await printed(["TERM": "xterm"]).contains("\u{1B}[32mlive   \u{1B}[0m"))
    #expect(try await printed(["TERM": "xterm", "NO_COLOR": ""]).contains("\u{1B}"))
    #expect(try await printed(["TERM": "xterm", "NO_COLOR": "1"]).contains("\u{1B}") == false)
    #expect(try await printed(["TERM": "dumb"]).contains("\u{1B}") == false)
  }
}
