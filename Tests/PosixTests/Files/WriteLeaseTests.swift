#if os(Linux)
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
  #endif

  private final class Counter: Sendable {
    private let count = Atomic(0)

    func next() -> Int { count.wrappingAdd(1, ordering: .relaxed).newValue }
  }

  @Suite struct WriteLeaseTests {
    let temporary: TemporaryDirectory
    let plan = FaultPlan()

    init() throws {
      temporary = try TemporaryDirectory()
      try Data("content".utf8).write(to: temporary.url("file"))
    }

    private func directory() throws -> Directory {
      try openDirectory(at: temporary.path, plan.files())
    }

    /// Returns the result of leasing a file and running `body` while the lease is held.
    private func lease(
      _ name: String = "file", judging judge: (Stat) -> WriteLease.Judgement = { _ in .wanted },
      during body: (borrowing OpenFile) throws -> Void
    ) throws -> WriteLease.Refusal? {
      switch try directory().leaseFile(name, judge) {
      case .taken(let file, _):
        try body(file)
        return nil
      case .refused(let refusal): return refusal
      }
    }

    private func lease(_ name: String = "file") throws -> WriteLease.Refusal? { try lease(name, during: { _ in }) }

    private func open(_ flags: CInt = O_RDONLY) -> CInt {
      Glibc.open(temporary.path.string + "/file", flags | O_NONBLOCK | O_CLOEXEC)
    }

    @Test func fileThatNobodyHasOpenIsLeased() throws {
      #expect(try lease() == nil)
      // Closing the file has ended the lease.
      #expect(try lease() == nil)
    }

    @Test(arguments: [O_RDONLY, O_WRONLY, O_RDWR]) func openFileIsNotLeased(flags: CInt) throws {
      let descriptor = open(flags)
      #expect(try lease() == .file)
      close(descriptor)
      #expect(try lease() == nil)
    }

    @Test func mappedFileIsNotLeased() throws {
      let descriptor = open()
      let base = try #require(mmap(nil, 7, PROT_READ, MAP_SHARED, descriptor, 0))
      close(descriptor)
      #expect(try lease() == .file)
      munmap(base, 7)
      #expect(try lease() == nil)
    }

    /// Without F_SETSIG, the SIGIO that announces the reader would end this process.
    @Test func readerWhoComesDuringALeaseNeitherWaitsNorKills() throws {
      let refusal = try lease(during: { file in
        #expect(open() == -1)
        #expect(errno == EWOULDBLOCK)
        let error = #expect(throws: FileError.self) { _ = try directory().openFile("file", for: .read) }
        #expect(error?.errno == .wouldBlock)
        // Two leases exclude each other.
        #expect(try lease() == .file)
        try file.releaseLease()
        let descriptor = open()
        #expect(descriptor >= 0)
        close(descriptor)
      })
      #expect(refusal == nil)
    }

    @Test func nameThatLeadsElsewhereByThenIsLookedUpAgain() throws {
      try Data("other".utf8).write(to: temporary.url("other"))
      let leased = try directory()
      guard case .taken(let file, _) = try leased.leaseFile("file", { _ in .wanted }) else {
        Issue.record("nobody else has the file open")
        return
      }
      // The reader's second lookup finds the file that has the name by then.
      let path = temporary.path.string
      let calls = Counter()
      let files = Files { call, _ in
        guard call == .openBeneath, calls.next() == 2 else { return nil }
        _ = rename(path + "/other", path + "/file")
        return nil
      }
      let reading = try openDirectory(at: temporary.path, files)
      guard case .regular(let read, _) = try reading.openFile("file", for: .read) else {
        Issue.record("the name is never without a file")
        return
      }
      var bytes = [UInt8](repeating: 0, count: 16)
      #expect(try bytes.withUnsafeMutableBytes { try read.read(into: $0, at: 0) } == 5)
      _ = try file.status()
    }

    @Test func unwantedFilesAreRefused() throws {
      #expect(try lease("absent") == .file)
      #expect(try lease(judging: { _ in .unwanted }, during: { _ in }) == .file)
      #expect(symlink("file", temporary.path.string + "/link") == 0)
      #expect(try lease("link") == .file)
      #expect(mkfifo(temporary.path.string + "/fifo", 0o600) == 0)
      #expect(try lease("fifo") == .file)
      #expect(mkdir(temporary.path.string + "/directory", 0o700) == 0)
      #expect(try lease("directory") == .file)
    }

    /// The file is renamed between the check of its old name and the lock.
    @Test func fileThatLostItsNameIsRefused() throws {
      try Data("other".utf8).write(to: temporary.url("other"))
      let path = temporary.path.string
      let files = Files { call, _ in
        if call == .lock { _ = rename(path + "/other", path + "/file") }
        return nil
      }
      guard case .refused(.file) = try openDirectory(at: temporary.path, files).leaseFile("file", { _ in .wanted })
      else {
        Issue.record("the file is another's by now")
        return
      }
    }

    /// The check of the name is skipped if the caller knows that the name has not changed.
    @Test(arguments: [WriteLease.Judgement.wanted, .untouched])
    func nameIsLookedAtUnlessNobodyHasTouchedTheFile(judgement: WriteLease.Judgement) throws {
      let looks = Counter()
      let files = Files { call, path in
        if call == .status { _ = looks.next() }
        return nil
      }
      let directory = try openDirectory(at: temporary.path, files)
      let before = looks.next()
      guard case .taken(_, let byteCount) = try directory.leaseFile("file", { _ in judgement }) else {
        Issue.record("nobody else has the file open")
        return
      }
      #expect(byteCount == 7)
      #expect(looks.next() - before - 1 == (judgement == .wanted ? 2 : 1))
    }

    @Test func leasesThatAreRefusedAreToldFromFilesThatAre() throws {
      for errno in [Errno.invalidArgument, .permissionDenied, .notPermitted, .noLocks] {
        plan.arm(FaultPlan.Fault(errno, call: 1, of: [.lease]))
        #expect(try lease() == .leases)
      }
      plan.arm(FaultPlan.Fault(.ioError, call: 1, of: [.lease]))
      let error = #expect(throws: FileError.self) { _ = try lease() }
      #expect(error?.call == .lease)
    }

    @Test func exchangeLeavesNoNameWithoutAFile() throws {
      try Data("other".utf8).write(to: temporary.url("other"))
      let directory = try directory()
      #expect(try directory.exchange("file", with: "other", in: directory))
      #expect(try Data(contentsOf: temporary.url("file")) == Data("other".utf8))
      #expect(try Data(contentsOf: temporary.url("other")) == Data("content".utf8))
      let error = #expect(throws: FileError.self) { _ = try directory.exchange("file", with: "absent", in: directory) }
      #expect(error?.errno == .noSuchFileOrDirectory)
      for errno in [Errno.invalidArgument, .noFunction, .notSupported] {
        plan.arm(FaultPlan.Fault(errno, call: 1, of: [.renameExchange]))
        #expect(try directory.exchange("file", with: "other", in: directory) == false)
      }
    }

    @Test func truncationCutsOffAndLengthens() throws {
      guard case .regular(let file, _) = try directory().openFile("file", for: .readWrite) else {
        Issue.record("it is a regular file")
        return
      }
      try file.truncate(to: 3)
      #expect(try Data(contentsOf: temporary.url("file")) == Data("con".utf8))
    }
  }
#endif
