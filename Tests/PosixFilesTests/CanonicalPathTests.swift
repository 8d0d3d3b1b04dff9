import Foundation
import PosixFiles
import SystemPackage
import TestSupport
import Testing

@Suite struct CanonicalPathTests {
  @Test(arguments: ["", ".", "./", "a/..", "./a/../."]) func theCurrentDirectoryHasOnePath(path: String) {
    let current = Files().canonical(FilePath(FileManager.default.currentDirectoryPath))
    #expect(Files().canonical(FilePath(path)) == current)
    #expect(Files().canonical(FilePath(path)).isAbsolute)
  }

  @Test func whatIsMissingIsAddedAsItWasWritten() throws {
    let directory = try TemporaryDirectory()
    let real = Files().canonical(directory.path)
    try FileManager.default.createSymbolicLink(
      atPath: directory.path.appending("link").string, withDestinationPath: directory.path.string)
    #expect(Files().canonical(directory.path.appending("link").appending("a").appending("b")) == real.appending("a/b"))
    #expect(Files().canonical(directory.path.appending("x/../link/y")) == real.appending("y"))
  }
}
