import Foundation
import TestSupport
import Testing

/// serve, which becomes another program. What that one does is tried where the trait Server is on: Tools/Traits.
@Suite struct ServeTests {
  let tool: Tool

  init() throws {
    tool = try Tool()
  }

  @Test func aServerThatWasBuiltWithoutTheTraitSaysHowToBuildIt() async throws {
    let run = try await tool.run("serve", "cache", "--listen", "127.0.0.1:0", now: nil)
    #expect(run.status == 2)
    #expect(
      run.error
        == "blobcache: this blobcache-serve was built without the trait Server; build it by: "
        + "swift build -c release --traits Server --product blobcache-serve\n")
  }

  @Test func aServerThatIsMissingIsNamed() async throws {
    let alone = tool.directory.url("blobcache")
    try FileManager.default.copyItem(at: Tool.executable, to: alone)
    let run = try await tool.execute([alone.path, "serve", "cache"])
    #expect(run.status == 2)
    #expect(
      run.error.hasPrefix("blobcache: serve: \(alone.path)-serve: No such file or directory; build it by: swift build"))
  }

  /// Arguments go to the program beside as they are.
  @Test func theProgramBesideGetsAllArguments() async throws {
    let alone = tool.directory.url("blobcache")
    try FileManager.default.copyItem(at: Tool.executable, to: alone)
    let beside = tool.directory.url("blobcache-serve")
    try Data("#!/bin/sh\nprintf '<%s>' \"$@\"\n".utf8).write(to: beside)
    try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: beside.path)
    let run = try await tool.execute([alone.path, "serve", "a b", "--listen", "x", "--quiet"])
    #expect(run.status == 0)
    #expect(run.text == "<a b><--listen><x><--quiet>")
  }
}
