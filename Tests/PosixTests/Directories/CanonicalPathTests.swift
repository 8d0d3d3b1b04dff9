import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@Suite struct CanonicalPathTests {
  let directory: TemporaryDirectory
  let real: FilePath

  init() throws {
    directory = try TemporaryDirectory()
    real = try Files().canonical(directory.path)
  }

  private func make(_ path: String) throws {
    try FileManager.default.createDirectory(at: directory.url(path), withIntermediateDirectories: true)
  }

  private func link(_ name: String, to target: String) throws {
    try FileManager.default.createSymbolicLink(atPath: directory.url(name).path, withDestinationPath: target)
  }

  private func canonical(_ path: String) throws -> FilePath {
    try Files().canonical(FilePath(directory.path.string + "/" + path))
  }

  @Test(arguments: ["", ".", "./", "a/..", "./a/../."]) func theCurrentDirectoryHasOnePath(path: String) throws {
    let current = try Files().canonical(FilePath(FileManager.default.currentDirectoryPath))
    #expect(try Files().canonical(FilePath(path)) == current)
    #expect(try Files().canonical(FilePath(path)).isAbsolute)
  }

  @Test func whatIsMissingIsAddedAsItWasWritten() throws {
    try link("link", to: directory.path.string)
    #expect(try canonical("link/a/b") == real.appending("a/b"))
    #expect(try canonical("a/./b") == real.appending("a/b"))
    // A missing "x" would be created as a directory.
    #expect(try canonical("x/../link/y") == real.appending("y"))
    #expect(try canonical("x/y/../../z") == real.appending("z"))
  }

  /// Like the kernel, this resolves a link before the dots that follow it.
  @Test func aLinkIsFollowedBeforeTheDotsAfterIt() throws {
    try make("far/away")
    try link("link", to: "far/away")
    #expect(try canonical("link/..") == real.appending("far"))
    #expect(try canonical("link/../cache") == real.appending("far/cache"))
    try make("far/cache")
    #expect(try canonical("link/../cache") == real.appending("far/cache"))
    #expect(try canonical("far/away/../../link/../cache") == real.appending("far/cache"))
    #expect(try canonical("missing/../link/../cache/new") == real.appending("far/cache/new"))
  }

  /// Only the system can resolve dots after a dangling link or a file.
  @Test(arguments: ["dangling", "file"]) func noDotsAreRemovedAfterWhatIsNoDirectory(name: String) throws {
    try link("dangling", to: "nowhere")
    try Data().write(to: directory.url("file"))
    #expect(try canonical("\(name)/../cache") == real.appending("\(name)/../cache"))
    #expect(try canonical("\(name)/../x/../cache") == real.appending("\(name)/../x/../cache"))
    #expect(try canonical("\(name)/cache") == real.appending("\(name)/cache"))
  }

  @Test func theRootHasNothingAbove() throws {
    #expect(try Files().canonical("/../..") == "/")
    #expect(try Files().canonical("/missing-here/../..") == "/")
  }

  @Test func anAbsolutePathStaysAsItIs() throws {
    #expect(try Files().absolute("/a/../b/./c") == "/a/../b/./c")
    #expect(try Files().absolute("a/../b") == FilePath(FileManager.default.currentDirectoryPath).appending("a/../b"))
  }

  @Test func withoutAWorkingDirectoryARelativePathLeadsNowhere() throws {
    let files = Files { call, _ in call == .workingDirectory ? .fail(.noSuchFileOrDirectory) : nil }
    #expect { try files.canonical("cache") } throws: { error in
      guard let error = error as? FileError else { return false }
      return error.call == .workingDirectory && error.errno == .noSuchFileOrDirectory && error.path == "cache"
    }
    #expect(try files.canonical(directory.path) == real)
  }
}
