import Foundation
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#elseif canImport(Darwin)
  import Darwin
#endif

/// Directory operations: names, listings, attributes, and the errors of each.
@Suite struct DirectoryTests {
  let temporary: TemporaryDirectory
  let plan = FaultPlan()

  init() throws {
    temporary = try TemporaryDirectory()
  }

  private func directory() throws -> Directory {
    try openDirectory(at: temporary.path, plan.files())
  }

  private func put(_ name: String) throws {
    try Data("x".utf8).write(to: temporary.url(name))
  }

  @Test func listingTellsNamesThatAreNotUTF8() throws {
    let names: [[CChar]] = [[0x61, 0], [-1, -2, 0], [0x2E, 0x68, 0], [-61, -87, 0], [0x65, -52, -127, 0]]
    for name in names {
      let path = temporary.path.string.utf8CString.dropLast() + [0x2F] + name
      let descriptor = Array(path).withUnsafeBufferPointer { creat($0.baseAddress!, 0o600) }
      // Some file systems reject such names.
      guard descriptor >= 0 else { continue }
      close(descriptor)
    }
    _ = try directory().makeSubdirectory("sub", permissions: .ownerReadWriteExecute)
    #expect(symlink("a", temporary.path.string + "/link") == 0)
    var found: [String: DirectoryEntry] = [:]
    var inexact = 0
    var stream = try directory().entries()
    while let entry = try stream.next() {
      if entry.isNameExact { found[String(describing: Array(entry.name.utf8))] = entry } else { inexact += 1 }
    }
    let exact = ["a", ".h", "é", "e\u{301}", "sub", "link"].map { String(describing: Array($0.utf8)) }
    #expect(Set(found.keys) == Set(exact))
    #expect(inexact == 1)
    #expect(found[String(describing: Array("a".utf8))]?.kind == .regular)
    #expect(found[String(describing: Array("sub".utf8))]?.kind == .directory)
    #expect(found[String(describing: Array("link".utf8))]?.kind == .other)
  }

  /// The replacement of a private file is never accessible to other users.
  @Test func aReplacedFileIsAsPrivateAsTheOldOne() throws {
    try put("file")
    try #require(chmod(temporary.path.string + "/file", 0o600) == 0)
    let modes = Lock<[UInt32]>([])
    let path = temporary.path.string
    let files = Files { call, _ in
      guard call == .setPermissions else { return nil }
      for name in (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? [] where name != "file" {
        var found = stat()
        if lstat(path + "/" + name, &found) == 0 { modes.withLock { $0.append(UInt32(found.st_mode) & 0o777) } }
      }
      return nil
    }
    try openDirectory(at: temporary.path, files).replaceFile("file") { try $0.write([2].span.bytes, at: 0) }
    #expect(modes.withLock { $0 } == [0o600])
  }

  /// A second stream continues at the position of the first.
  @Test(.enabled(if: DirectoryStream.keepsPositions), arguments: 0...6)
  func anotherStreamGoesOnAtThePositionOfTheFirst(count: Int) throws {
    let all = ["1", "2", "3", "4", "5", "6"]
    for name in all { try put(name) }
    var first = try directory().entries()
    var names: [String] = []
    for _ in 0..<count { names.append(try #require(try first.next()).name) }
    var second = try directory().entries()
    try second.move(to: first.position)
    while let entry = try second.next() { names.append(entry.name) }
    #expect(names.sorted() == all)
    plan.arm(FaultPlan.Fault(.ioError, call: 1, of: [.listDirectory]))
    #expect(throws: FileError.self) { try second.move(to: first.position) }
  }

  @Test func renamingIfAbsentReplacesNothing() throws {
    let directory = try directory()
    for name in ["a", "b"] { try put(name) }
    #expect(try directory.renameIfAbsent("a", to: "b") == false)
    #expect(try directory.renameIfAbsent("a", to: "c") == true)
    #expect(try temporary.names() == ["b", "c"])
    for errno in [Errno.invalidArgument, .noFunction, .notSupported] {
      plan.arm(FaultPlan.Fault(errno, call: 1, of: [.renameNoReplace]))
      #expect(try directory.renameIfAbsent("b", to: "d") == nil)
    }
    try directory.rename("b", to: "c", in: directory)
    #expect(try temporary.names() == ["c"])
  }

  @Test func absenceIsAnAnswerAndNoError() throws {
    let directory = try directory()
    #expect(try !directory.unlink("absent"))
    #expect(try !directory.removeSubdirectory("absent"))
    #expect(try directory.status(of: "absent") == nil)
    if try Directory(at: temporary.path.appending("absent"), files: plan.files()) != nil {
      Issue.record("there is no such directory")
    }
    #expect(try plan.files().status(of: temporary.path.appending("absent")) == nil)
    #expect(try directory.makeSubdirectory("sub", permissions: .ownerReadWriteExecute))
    #expect(try !directory.makeSubdirectory("sub", permissions: .ownerReadWriteExecute))
    try put("sub/file")
    #expect(try !directory.removeSubdirectory("sub"))
  }

  @Test(arguments: ["file", "link"]) func fileIsCreatedOnlyWhereThereIsNone(name: String) throws {
    let directory = try directory()
    try put("file")
    #expect(symlink("nowhere", temporary.path.string + "/link") == 0)
    let error = #expect(throws: FileError.self) { _ = try directory.createFile(name, permissions: .ownerReadWrite) }
    #expect(error?.errno == .fileExists)
    #expect(try Data(contentsOf: temporary.url("file")) == Data("x".utf8))
    #expect(try directory.status(of: "nowhere") == nil)
  }

  @Test(arguments: [
    SystemCall.openDirectory, .openBeneath, .open, .unlink, .rename, .renameNoReplace, .makeDirectory,
    .removeDirectory, .listDirectory, .status, .sync, .volumeStatus,
  ])
  func errorsSayWhichCallOnWhatAndWhyAndInterruptionsPass(call: SystemCall) throws {
    let directory = try directory()
    let subject = try Self.make(call, on: directory)
    plan.arm(FaultPlan.Fault(.staleNFSFileHandle, call: 1, of: [call]))
    let error = #expect(throws: FileError.self) { _ = try Self.make(call, on: directory) }
    #expect(error?.call == call)
    #expect(error?.errno == .staleNFSFileHandle)
    #expect(error?.path == (subject.isEmpty ? temporary.path : temporary.path.appending(subject)))
    plan.arm(FaultPlan.Fault(.interrupted, call: 1, of: [call]))
    _ = try Self.make(call, on: directory)
    #expect(plan.failed.count == 1)
  }

  /// - Returns: The file name that the call uses.
  private static func make(_ call: SystemCall, on directory: borrowing Directory) throws -> String {
    func ignoringAbsence(_ body: () throws -> Void) throws {
      do { try body() } catch let error as FileError where error.errno == .noSuchFileOrDirectory {}
    }
    switch call {
    case .openDirectory:
      _ = try directory.openSubdirectory("sub")
      return "sub"
    case .openBeneath:
      _ = try directory.openFile("file", for: .read)
      return "file"
    case .open:
      _ = try directory.createFile("created", permissions: .ownerRead)
      _ = try directory.unlink("created")
      return "created"
    case .unlink:
      _ = try directory.unlink("victim")
      return "victim"
    case .rename:
      try ignoringAbsence { try directory.rename("file", to: "renamed", in: directory) }
      return "renamed"
    case .renameNoReplace:
      try ignoringAbsence { _ = try directory.renameIfAbsent("file", to: "renamed") }
      return "renamed"
    case .makeDirectory:
      _ = try directory.makeSubdirectory("made", permissions: .ownerReadWriteExecute)
      return "made"
    case .removeDirectory:
      _ = try directory.removeSubdirectory("made")
      return "made"
    case .listDirectory:
      var stream = try directory.entries()
      while try stream.next() != nil {}
    case .status: _ = try directory.status()
    case .sync: try directory.synchronize()
    case .volumeStatus: _ = try directory.volumeSpace()
    default: Issue.record("no call of a directory: \(call)")
    }
    return ""
  }

  /// The result is `nil` if the file system does not count inodes, as with btrfs.
  @Test func volumeHasInodesForWhatIsMadeNext() throws {
    if let count = try directory().freeInodes() { #expect(count > 0) }
  }

  @Test func volumeHasSpaceAndNoMoreThanItsSize() throws {
    let space = try directory().volumeSpace()
    #expect(space.total > 0)
    #expect((0...space.total).contains(space.available))
  }

  @Test func ownerAndGroupAreGivenOneByOne() throws {
    let directory = try directory()
    let before = try directory.status()
    try directory.setOwner(user: before.userID, group: nil)
    try directory.setOwner(user: nil, group: before.groupID)
    #expect(try directory.status().userID == before.userID && directory.status().groupID == before.groupID)
  }

  @Test func permissionsAreSet() throws {
    let directory = try directory()
    for permissions in [FilePermissions.ownerReadWriteExecute, [.ownerReadWriteExecute, .groupRead]] {
      try directory.setPermissions(permissions)
      #expect(try directory.status().permissions == permissions)
    }
  }

  @Test func lockExcludesAnotherDescriptionAndItsFailureIsReported() throws {
    let first = try directory()
    let second = try first.reopened()
    #expect(try first.tryLock())
    #expect(try !second.tryLock())
    plan.arm(FaultPlan.Fault(.noLocks, call: 1, of: [.lock]))
    let error = #expect(throws: FileError.self) { _ = try second.tryLock() }
    #expect(error?.errno == .noLocks)
  }

  @Test func secondNameIsGivenUnlessItIsTaken() throws {
    let directory = try directory()
    for name in ["a", "b"] { try put(name) }
    #expect(try directory.linkIfAbsent("a", as: "c"))
    #expect(try directory.status(of: "a")?.inode == directory.status(of: "c")?.inode)
    #expect(try !directory.linkIfAbsent("a", as: "b"))
    let error = #expect(throws: FileError.self) { _ = try directory.linkIfAbsent("absent", as: "d") }
    #expect(error?.errno == .noSuchFileOrDirectory)
  }

  /// Other errors must not be mistaken for a missing file.
  @Test func statusThatCannotBeAskedForIsAnError() throws {
    let directory = try directory()
    for isByPath in [false, true] {
      plan.arm(FaultPlan.Fault(.permissionDenied, call: 1, of: [.status]))
      let error = #expect(throws: FileError.self) {
        _ = try isByPath ? plan.files().status(of: temporary.path) : directory.status(of: "file")
      }
      #expect(error?.errno == .permissionDenied)
    }
  }

  @Test func fileIsReplacedWholeOrNotAtAll() throws {
    let directory = try directory()
    for bytes in [[1], [2, 3]] as [[UInt8]] {
      try directory.replaceFile("file") { try $0.write(bytes.span.bytes, at: 0) }
      #expect(try Data(contentsOf: temporary.url("file")) == Data(bytes))
    }
    // Permissions are preserved.
    #expect(chmod(temporary.path.string + "/file", 0o751) == 0)
    let bytes: [UInt8] = [2, 3]
    try directory.replaceFile("file") { try $0.write(bytes.span.bytes, at: 0) }
    #expect(try directory.status(of: "file")?.permissions == FilePermissions(rawValue: 0o751))
    #expect(symlink("file", temporary.path.string + "/link") == 0)
    let refused = #expect(throws: FileError.self) {
      try directory.replaceFile("link") { try $0.write([4].span.bytes, at: 0) }
    }
    #expect(refused?.errno == .fileExists)
    plan.arm(FaultPlan.Fault(.noSpace, call: 1, of: [.write]))
    let failed = #expect(throws: FileError.self) {
      try directory.replaceFile("file") { try $0.write([5].span.bytes, at: 0) }
    }
    #expect(failed?.errno == .noSpace)
    #expect(try Data(contentsOf: temporary.url("file")) == Data(bytes))
    #expect(try Set(temporary.names()) == ["file", "link"])
  }

  @Test func statusOfWhatIsNotThereIsNone() throws {
    #expect(try Files().status(of: temporary.path.appending("absent")) == nil)
  }
}

/// Opens an existing directory.
func openDirectory(at path: FilePath, _ files: Files) throws -> Directory {
  guard let directory = try Directory(at: path, files: files) else { throw Errno.noSuchFileOrDirectory }
  return directory
}
