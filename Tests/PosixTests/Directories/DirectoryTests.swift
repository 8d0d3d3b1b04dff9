import Foundation
import Posix
import Synchronization
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

@Suite struct DirectoryTests {
  let temporary: TemporaryDirectory
  let plan = FaultPlan()

  init() throws {
    temporary = try TemporaryDirectory()
  }

  private func directory() throws -> Directory {
    try openDirectory(at: temporary.path, plan.files())
  }

  #if !os(iOS)
    /// In a process of its own, because the working directory is the process's.
    @Test func aRelativeNameIsMadeInTheWorkingDirectory() async {
      await #expect(processExitsWith: .success) {
        let temporary = try TemporaryDirectory()
        #expect(chdir(temporary.path.string) == 0)
        #expect(try Files().makeDirectories(at: "name", permissions: .ownerReadWriteExecute) == ["."])
        #expect(try temporary.names() == ["name"])
      }
    }
  #endif

  private func put(_ name: String) throws {
    try Data("x".utf8).write(to: temporary.url(name))
  }

  /// What opening finds, by a name to compare.
  private static func kind(_ file: consuming OpenedFile) -> String {
    switch consume file {
    case .regular: "regular"
    case .absent: "absent"
    case .notRegular: "notRegular"
    }
  }

  @Test(.timeLimit(.minutes(10)), arguments: [nil, .noFunction, .notPermitted] as [Errno?])
  func onlyRegularFilesBelowTheRootAreOpenedAndNothingBlocks(refusal: Errno?) throws {
    if let refusal { plan.refuse(.openBeneath, refusal) }
    let directory = try directory()
    _ = try directory.makeSubdirectory("sub", permissions: .ownerReadWriteExecute)
    for name in ["file", "sub/file"] { try put(name) }
    // A socket's path is short.
    let path = temporary.path.string
    #expect(symlink("file", path + "/link") == 0)
    #expect(symlink("sub", path + "/linked") == 0)
    #expect(symlink("nowhere", path + "/dangling") == 0)
    #expect(symlink("/dev/null", path + "/outside") == 0)
    #expect(mkfifo(path + "/fifo", 0o600) == 0)
    #expect(mkfifo(path + "/sub/fifo", 0o600) == 0)
    let socket = try Self.makeSocket(path + "/socket")
    defer { close(socket) }
    var expected = [
      "file": "regular", "sub/file": "regular", "absent": "absent", "sub/absent": "absent", "absent/file": "absent",
      "link": "notRegular", "linked/file": "notRegular", "dangling": "notRegular", "outside": "notRegular",
      "fifo": "notRegular", "sub/fifo": "notRegular", "sub": "notRegular", "file/file": "notRegular",
      "socket": "notRegular",
    ]
    // Only the superuser makes devices.
    if mknod(path + "/device", S_IFCHR | 0o600, 0x103) == 0 { expected["device"] = "notRegular" }
    for (name, kind) in expected {
      for access in [FileAccess.read, .readWrite] {
        #expect(Self.kind(try directory.openFile(name, for: access)) == kind, "\(name)")
        let parts = name.split(separator: "/").map(String.init)
        guard parts.count == 2 else { continue }
        #expect(Self.kind(try directory.openFile(parts[1], in: parts[0], for: access)) == kind, "\(parts)")
      }
    }
    #expect(refusal == nil || !plan.calls.allSatisfy { $0.kind != .open })
  }

  private static func makeSocket(_ path: String) throws -> CInt {
    #if canImport(Glibc)
      let stream = CInt(SOCK_STREAM.rawValue)
    #else
      let stream = SOCK_STREAM
    #endif
    let descriptor = socket(AF_UNIX, stream, 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    let result = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    try #require(result == 0)
    return descriptor
  }

  @Test func refusedOpenBeneathIsNotAskedAgain() throws {
    try put("file")
    plan.refuse(.openBeneath, .noFunction)
    let directory = try directory()
    for _ in 0..<3 { #expect(Self.kind(try directory.openFile("file", for: .read)) == "regular") }
    #expect(plan.calls.filter { $0.kind == .openBeneath }.count == 1)
  }

  @Test func subdirectoriesAreNotReachedThroughLinks() throws {
    let directory = try directory()
    #expect(symlink("/tmp", temporary.path.string + "/link") == 0)
    let error = #expect(throws: FileError.self) {
      _ = try directory.openSubdirectory("link")
    }
    #expect([.notDirectory, .tooManySymbolicLinkLevels].contains(error?.errno))
    if try directory.openSubdirectory("absent") != nil { Issue.record("there is no such directory") }
  }

  @Test func listingTellsNamesThatAreNotUTF8() throws {
    let names: [[CChar]] = [[0x61, 0], [-1, -2, 0], [0x2E, 0x68, 0], [-61, -87, 0], [0x65, -52, -127, 0]]
    for name in names {
      let path = temporary.path.string.utf8CString.dropLast() + [0x2F] + name
      let descriptor = Array(path).withUnsafeBufferPointer { creat($0.baseAddress!, 0o600) }
      // Some file systems take no such names.
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

  /// openat2(2) answers EXDEV for a file that is moved out of the directory while it is looked up. Found by the torture: a
  /// collection came upon a file just when it was moved into the recycling bin.
  @Test(arguments: [("top", "sub/file"), ("top/sub", "file")])
  func fileThatIsMovedAwayIsThereOrNot(start: String, path: String) throws {
    for name in ["top", "top/sub", "elsewhere"] {
      #expect(mkdir(temporary.path.string + "/" + name, 0o700) == 0)
    }
    try put("elsewhere/file")
    let (inside, elsewhere) = (temporary.path.string + "/top/sub/file", temporary.path.string + "/elsewhere/file")
    let isDone = Atomic(false)
    let mover = try OwnedThread {
      while !isDone.load(ordering: .relaxed) {
        rename(elsewhere, inside)
        rename(inside, elsewhere)
      }
    }
    defer {
      isDone.store(true, ordering: .relaxed)
      mover.join()
    }
    let directory = try openDirectory(at: temporary.path.appending(start), plan.files())
    var kinds: Set<String> = []
    for _ in 0..<100_000 { kinds.insert(Self.kind(try directory.openFile(path, for: .read))) }
    #expect(kinds == ["regular", "absent"])
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
    try directory.rename("b", to: "c")
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

  @Test func missingDirectoriesAreMadeAndTheirContainersTold() throws {
    let files = plan.files()
    let path = temporary.path.appending("a").appending("b").appending("c")
    let changed = try files.makeDirectories(at: path, permissions: .ownerReadWriteExecute)
    #expect(changed == [temporary.path, temporary.path.appending("a"), temporary.path.appending("a").appending("b")])
    #expect(try files.makeDirectories(at: path, permissions: .ownerReadWriteExecute) == [])
    let made = try openDirectory(at: path, files)
    #expect(try made.status().permissions.rawValue & 0o777 == 0o700)
  }

  /// A path may be of any depth, and a thread's stack small: each directory is made as near to its end as the first.
  @Test func theDepthOfAPathTakesNoStack() throws {
    let least = Atomic(Int.max)
    let most = Atomic(0)
    let files = Files { call, _ in
      guard call == .makeDirectory else { return nil }
      let frames = Thread.callStackReturnAddresses.count
      _ = (least.min(frames, ordering: .relaxed), most.max(frames, ordering: .relaxed))
      return nil
    }
    let depth = 20
    let path = FilePath(temporary.path.string + String(repeating: "/d", count: depth))
    #expect(try files.makeDirectories(at: path, permissions: .ownerReadWriteExecute).count == depth)
    let (nearest, farthest) = (least.load(ordering: .relaxed), most.load(ordering: .relaxed))
    #expect(nearest > 0 && farthest - nearest < depth / 2)
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

  /// - Returns: the name below the directory that the call is about.
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
      try ignoringAbsence { try directory.rename("file", to: "renamed") }
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

  /// nil where the file system counts no inodes, as btrfs does.
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

  /// Whether something is there must not be guessed from another error.
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

  @Test func directoryThatIsThereIsNotMade() throws {
    #expect(try Files().makeDirectories(at: ".", permissions: .ownerReadWriteExecute).isEmpty)
    #expect(try Files().makeDirectories(at: temporary.path, permissions: .ownerReadWriteExecute).isEmpty)
  }

  @Test func fileIsReplacedWholeOrNotAtAll() throws {
    let directory = try directory()
    for bytes in [[1], [2, 3]] as [[UInt8]] {
      try directory.replaceFile("file", with: bytes.span.bytes)
      #expect(try Data(contentsOf: temporary.url("file")) == Data(bytes))
    }
    #expect(symlink("file", temporary.path.string + "/link") == 0)
    let refused = #expect(throws: FileError.self) { try directory.replaceFile("link", with: [4].span.bytes) }
    #expect(refused?.errno == .fileExists)
    plan.arm(FaultPlan.Fault(.noSpace, call: 1, of: [.write]))
    let failed = #expect(throws: FileError.self) { try directory.replaceFile("file", with: [5].span.bytes) }
    #expect(failed?.errno == .noSpace)
    #expect(try Data(contentsOf: temporary.url("file")) == Data([2, 3]))
    #expect(try Set(temporary.names()) == ["file", "link"])
  }

  /// Whatever was there when it was looked at.
  @Test func onlyPipesAndDevicesAreWrittenToInPlace() throws {
    let directory = try directory()
    try put("file")
    let path = temporary.path.string
    #expect(symlink("file", path + "/link") == 0)
    #expect(symlink("/dev/null", path + "/device") == 0)
    #expect(mkfifo(path + "/fifo", 0o600) == 0)
    #expect(try directory.openOutput("file") == nil)
    for name in ["link", "device"] {
      let error = #expect(throws: FileError.self) { _ = try directory.openOutput(name) == nil }
      #expect(error?.errno == .tooManySymbolicLinkLevels)
    }
    let reader = open(path + "/fifo", O_RDONLY | O_NONBLOCK)
    defer { close(reader) }
    #expect(try directory.openOutput("fifo") != nil)
    #expect(try openDirectory(at: "/dev", Files()).openOutput("null") != nil)
    #expect(try Data(contentsOf: temporary.url("file")) == Data("x".utf8))
  }

  @Test func statusOfWhatIsNotThereIsNone() throws {
    #expect(try Files().status(of: temporary.path.appending("absent")) == nil)
  }

  /// Somebody else makes the directory, or the one above it, in between.
  @Test func directoriesThatOthersMakeMeanwhileAreTaken() throws {
    let path = temporary.path.appending("above").appending("below")
    let files = Files { call, location in
      if call == .makeDirectory, location.path.lastComponent == "above" {
        mkdir(path.removingLastComponent().string, 0o700)
      }
      return nil
    }
    _ = try files.makeDirectories(at: path, permissions: .ownerReadWriteExecute)
    #expect(try Files().status(of: path) != nil)
    let late = temporary.path.appending("one").appending("two")
    let racing = Files { call, location in
      if call == .makeDirectory, location.path.lastComponent == "one" {
        mkdir(late.removingLastComponent().string, 0o700)
        mkdir(late.string, 0o700)
      }
      return nil
    }
    #expect(try racing.makeDirectories(at: late, permissions: .ownerReadWriteExecute).count <= 1)
  }
}

/// Opens a directory that is there.
func openDirectory(at path: FilePath, _ files: Files) throws -> Directory {
  guard let directory = try Directory(at: path, files: files) else { throw Errno.noSuchFileOrDirectory }
  return directory
}
