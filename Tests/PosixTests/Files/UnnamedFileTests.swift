#if os(Linux)
  import Foundation
  import Posix
  import SystemPackage
  import TestSupport
  import Testing

  /// Tests that need a file system with unnamed files.
  @Suite(.enabled(if: SystemCall.hasUnnamedFiles)) struct UnnamedFileTests {
    let temporary: TemporaryDirectory
    let plan = FaultPlan()

    init() throws { temporary = try TemporaryDirectory() }

    private func directory(_ files: Files? = nil) throws -> Directory {
      try openDirectory(at: temporary.path, files ?? plan.files())
    }

    private struct NoUnnamedFiles: Error {}

    private func create(in directory: borrowing Directory) throws -> OpenFile {
      guard let file = try directory.createUnnamedFile(permissions: .ownerReadWrite) else { throw NoUnnamedFiles() }
      let content: [UInt8] = [7]
      try file.write(content.span.bytes, at: 0)
      return file
    }

    private func isCreated(in directory: borrowing Directory) throws -> Bool {
      guard let file = try directory.createUnnamedFile(permissions: .ownerReadWrite) else { return false }
      return try file.status().linkCount == 0
    }

    /// - Returns: The error of linking the file to its name.
    private func failure(of file: borrowing OpenFile, in directory: borrowing Directory) -> FileError? {
      do throws(FileError) {
        _ = try directory.name(file, ifAbsent: "name")
        return nil
      } catch {
        return error
      }
    }

    @Test func fileGetsItsName() throws {
      let directory = try directory()
      let file = try create(in: directory)
      #expect(try temporary.names() == [])
      let before = try file.status().linkCount
      let isNamed = try directory.name(file, ifAbsent: "name")
      let after = try file.status().linkCount
      #expect(isNamed && before == 0 && after == 1)
      #expect(try temporary.names() == ["name"])
      #expect(try Data(contentsOf: temporary.url("name")) == Data([7]))
    }

    @Test func fileWithoutANameGoesWhenItIsClosed() throws {
      #expect(try isCreated(in: directory()))
      #expect(try temporary.names() == [])
    }

    @Test func nameThatIsTakenIsLeft() throws {
      let directory = try directory()
      try Data("other".utf8).write(to: temporary.url("name"))
      let file = try create(in: directory)
      let takesIt = try directory.name(file, ifAbsent: "name")
      #expect(!takesIt)
      #expect(try Data(contentsOf: temporary.url("name")) == Data("other".utf8))
      let takesAnother = try directory.name(file, ifAbsent: "another")
      #expect(takesAnother)
      #expect(try temporary.names() == ["another", "name"])
    }

    @Test func removedDirectoryTakesNoName() throws {
      let files = plan.files()
      let top = try directory(files)
      _ = try top.makeSubdirectory("sub", permissions: .ownerReadWriteExecute)
      let sub = try openDirectory(at: temporary.path.appending("sub"), files)
      let file = try create(in: sub)
      let isRemoved = try top.removeSubdirectory("sub")
      #expect(isRemoved)
      let error = failure(of: file, in: sub)
      #expect(error?.errno == .noSuchFileOrDirectory)
      #expect(error?.call == .linkUnnamed)
      #expect(error?.path == temporary.path.appending("sub").appending("name"))
      #expect(try !isCreated(in: sub))
      #expect(!files.refusesUnnamedFiles)
    }

    @Test(arguments: [Errno.notSupported, .isDirectory, .invalidArgument, .noFunction])
    func fileSystemWithoutThemIsAskedOnce(errno: Errno) throws {
      plan.refuse(.openUnnamed, errno)
      let directory = try directory()
      for _ in 0..<2 { #expect(try !isCreated(in: directory)) }
      #expect(plan.calls.count { $0.kind == .openUnnamed } == 1)
    }

    @Test(arguments: [
      Errno.notPermitted, .permissionDenied, .notSupported, .invalidArgument, .noFunction, .improperLink,
      .noSuchFileOrDirectory,
    ]) func refusedNameIsRemembered(errno: Errno) throws {
      let files = plan.files()
      let directory = try directory(files)
      plan.refuse(.linkUnnamed, errno)
      let file = try create(in: directory)
      let error = failure(of: file, in: directory)
      #expect(error?.errno == errno)
      #expect(files.refusesUnnamedFiles)
      #expect(try !isCreated(in: directory))
    }

    @Test(arguments: [Errno.noSpace, .ioError, .diskQuotaExceeded, .readOnlyFileSystem])
    func otherFailuresAreErrors(errno: Errno) throws {
      let files = plan.files()
      let directory = try directory(files)
      plan.arm(FaultPlan.Fault(errno, call: 1, of: [.openUnnamed]))
      let failure = #expect(throws: FileError.self) { try isCreated(in: directory) }
      #expect(failure?.errno == errno)
      #expect(failure?.path == temporary.path.appending(".unnamed"))
      let file = try create(in: directory)
      plan.arm(FaultPlan.Fault(errno, call: 1, of: [.linkUnnamed]))
      let error = self.failure(of: file, in: directory)
      #expect(error?.errno == errno)
      #expect(!files.refusesUnnamedFiles)
    }
  }
#endif
