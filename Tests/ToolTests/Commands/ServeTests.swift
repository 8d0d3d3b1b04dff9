import Foundation
import TestSupport
import Testing

/// serve, view and remote, which execute other programs. Tools/Traits tests those programs with their traits enabled.
@Suite struct ServeTests {
  let tool: Tool

  init() throws {
    tool = try Tool()
  }

  #if !Server
    @Test func aServerThatWasBuiltWithoutTheTraitSaysHowToBuildIt() async throws {
      let run = try await tool.run("serve", "cache", "--listen", "127.0.0.1:0", now: nil)
      #expect(run.status == 2)
      #expect(
        run.error
          == "blobcache: this blobcache-serve was built without the trait Server; build it by: "
          + "swift build -c release --traits Server --product blobcache-serve\n")
    }
    @Test func aProgramForRemoteTiersToo() async throws {
      let run = try await tool.run("remote", "check", "s3://bucket", now: nil)
      #expect(run.status == 2)
      #expect(
        run.error
          == "blobcache: this blobcache-remote was built without the trait Remote; build it by: "
          + "swift build -c release --traits Tool,Remote --product blobcache-remote\n")
    }
  #endif

  /// Copies the tool into the test's directory, without the other program.
  ///
  /// A separate process makes the copy, because a child that another test forks concurrently would keep this
  /// process's copy open for writing, and such a file cannot be executed.
  private func toolAlone() async throws -> URL {
    let alone = tool.directory.url("blobcache")
    #expect(try await tool.execute(["cp", Tool.executable.path, alone.path]).status == 0)
    return alone
  }

  @Test func aServerThatIsMissingIsNamed() async throws {
    let alone = try await toolAlone()
    let run = try await tool.execute([alone.path, "serve", "cache"])
    #expect(run.status == 2)
    #expect(
      run.error.hasPrefix("blobcache: serve: \(alone.path)-serve: No such file or directory; build it by: swift build"))
    let remote = try await tool.execute([alone.path, "remote", "list", "s3://bucket"])
    #expect(remote.status == 2)
    #expect(
      remote.error == "blobcache: remote: \(alone.path)-remote: No such file or directory; build it by: "
        + "swift build -c release --traits Tool,Remote --product blobcache-remote\n")
  }

  /// The other program gets all arguments unchanged.
  @Test func theProgramBesideGetsAllArguments() async throws {
    let alone = try await toolAlone()
    let script = """
      printf '%s\n' '#!/bin/sh' 'printf "<%s>" "$@"' >blobcache-serve
      chmod +x blobcache-serve
      cp blobcache-serve blobcache-remote
      """
    #expect(try await tool.execute(["sh", "-c", script]).status == 0)
    let run = try await tool.execute([alone.path, "serve", "a b", "--listen", "x", "--quiet"])
    #expect(run.status == 0)
    #expect(run.text == "<a b><--listen><x><--quiet>")
    let view = try await tool.execute([alone.path, "view", "a b", "--read-only"])
    #expect(view.status == 0)
    #expect(view.text == "<--view><a b><--read-only>")
    let remote = try await tool.execute([alone.path, "remote", "get", "s3://bucket", "a b", "--", "-x"])
    #expect(remote.status == 0)
    #expect(remote.text.hasPrefix("<get><s3://bucket><a b>"))
    #expect(remote.text.hasSuffix("<-x>"))
  }
}
