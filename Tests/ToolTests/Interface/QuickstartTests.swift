import Foundation
import TestSupport
import Testing

/// Tools/quickstart with the current build instead of a new one.
@Suite(.timeLimit(.minutes(30))) struct QuickstartTests {
  private static let script = Checkout.url("Tools/quickstart")

  let tool: Tool

  init() throws {
    tool = try Tool()
    // These scripts replace the compilers, as far as Tools/quickstart uses them.
    let products = Tool.executable.deletingLastPathComponent().path
    try tool.create(
      "bin/swift",
      """
      #!/bin/sh
      case "$*" in
      --version) echo "Swift version 6.2" ;;
      *--show-bin-path*) echo "\(products)" ;;
      esac
      """)
    try tool.create("bin/cc", "#!/bin/sh\n")
    for name in ["swift", "cc"] {
      try FileManager.default.setAttributes(
        [.posixPermissions: 0o755], ofItemAtPath: tool.directory.url("bin/\(name)").path)
    }
  }

  private func quickstart() async throws -> Tool.Run {
    try await tool.execute(
      [Self.script.path, tool.directory.url("files").path],
      environment: ["PATH": tool.directory.url("bin").path + ":/usr/bin:/bin:/usr/sbin:/sbin"])
  }

  @Test func filesWhosePathsAreNoKeysAreSkipped() async throws {
    let long = String(repeating: "l", count: 100)
    // With escaped slashes, the encoded names have 255 and 256 bytes.
    try tool.create("files/\(long)/\(long)/" + String(repeating: "m", count: 49), "longest")
    try tool.create("files/\(long)/\(long)/" + String(repeating: "n", count: 50), "too long")
    for (index, name) in ["a", "é", ".hidden", "-", "two\nlines", "100%"].enumerated() {
      try tool.create("files/\(name)", "\(index)")
    }
    let made = try await tool.execute(["sh", "-c", #": >"files/$(printf 'a\377b')""#])
    #expect(made.status == 0, "\(made.error)")
    let run = try await quickstart()
    #expect(run.status == 0, "\(run.error)")
    #expect(run.text.contains("\nSkipped: 2 files "))
    #expect(run.text.contains("\n... 7 files stored.\n"))
    #expect(run.text.contains("\n7 files loaded and compared: no difference.\n"))
    #expect(run.text.contains("That was blobcache."))
  }

  @Test func nothingIsSaidOfFilesThatCanAllBeStored() async throws {
    try tool.create("files/a", "1")
    let run = try await quickstart()
    #expect(run.status == 0, "\(run.error)")
    #expect(!run.text.contains("Skipped"))
  }

  /// OpenStack's object storage client has the same name as the compiler.
  @Test(arguments: ["echo python-swiftclient 4.1.0", "exit 1"]) func anotherProgramOfThisNameIsNotTheCompiler(
    body: String
  ) async throws {
    try tool.create("bin/swift", "#!/bin/sh\n\(body)\n")
    try tool.create("files/a", "1")
    let run = try await quickstart()
    #expect(run.status == 1)
    #expect(run.text.contains("bin/swift is not the Swift compiler."), "\(run.text)\(run.error)")
  }
}
