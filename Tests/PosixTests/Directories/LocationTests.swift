import Posix
import SystemPackage
import TestSupport
import Testing

@Suite struct LocationTests {
  private let temporary: TemporaryDirectory
  private let plan = FaultPlan()

  init() throws { temporary = try TemporaryDirectory() }

  /// Errors contain the whole path at any depth, although its components are only joined when it is read.
  @Test func errorsNameTheWholePath() throws {
    let root = try openDirectory(at: temporary.path, plan.files())
    func make(_ name: String, in directory: borrowing Directory) throws -> Directory {
      #expect(try directory.makeSubdirectory(name, permissions: .ownerReadWriteExecute))
      return try directory.openSubdirectory(name)!
    }
    let first = try make("a", in: root)
    let second = try make("b", in: first)
    #expect(second.path == temporary.path.appending("a/b"))
    func expect(_ path: String, _ open: () throws -> Void) {
      plan.arm(FaultPlan.Fault(.ioError, call: 1, of: [.openBeneath]))
      let error = #expect(throws: FileError.self) { try open() }
      #expect(error?.path == temporary.path.appending(path))
    }
    expect("file") { _ = try root.openFile("file", for: .read) }
    expect("c/file") { _ = try root.openFile("file", in: "c", for: .read) }
    expect("a/file") { _ = try first.openFile("file", for: .read) }
    expect("a/c/file") { _ = try first.openFile("file", in: "c", for: .read) }
    expect("a/b/file") { _ = try second.openFile("file", for: .read) }
    expect("a/b/c/d/file") { _ = try second.openFile("file", in: "c/d", for: .read) }
  }
}
