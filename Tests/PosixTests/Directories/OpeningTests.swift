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

/// Opening a name: only regular files inside the directory are opened.
@Suite struct OpeningTests {
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

  /// Returns the result of opening as a comparable name.
  private static func kind(_ file: consuming OpenedFile) -> String {
    switch consume file {
    case .regular: "regular"
    case .absent: "absent"
    case .notRegular: "notRegular"
    }
  }

  @Test(.timeLimit(.minutes(30)), arguments: [nil, .noFunction, .notPermitted] as [Errno?])
  func onlyRegularFilesBelowTheRootAreOpenedAndNothingBlocks(refusal: Errno?) throws {
    if let refusal { plan.refuse(.openBeneath, refusal) }
    let directory = try directory()
    _ = try directory.makeSubdirectory("sub", permissions: .ownerReadWriteExecute)
    for name in ["file", "sub/file"] { try put(name) }
    // A socket address has a short path.
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
    // Only root can create devices.
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

  /// openat2(2) fails with EXDEV for a file that is moved out of the directory during the lookup. The torture test
  /// found this when a collection opened a file that was moved into the recycling bin.
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

  /// The kernel's errors for a file that is being moved. The lookup is repeated up to sixteen times.
  @Test(arguments: [Errno.improperLink, .wouldBlock], [1, 16, 17])
  func fileInTheMiddleOfAMoveIsLookedAtAgain(answer: Errno, times: Int) throws {
    try put("file")
    let looks = Atomic(0)
    let files = Files(accessTimeTellsOwner: false) { call, _ in
      guard [.openBeneath, .open].contains(call) else { return nil }
      return looks.add(1, ordering: .relaxed).newValue <= times ? .fail(answer) : nil
    }
    let directory = try openDirectory(at: temporary.path, files)
    if times <= 16 {
      #expect(Self.kind(try directory.openFile("file", for: .read)) == "regular")
    } else {
      let error = #expect(throws: FileError.self) { _ = Self.kind(try directory.openFile("file", for: .read)) }
      #expect(error?.errno == answer)
    }
    #expect(looks.load(ordering: .relaxed) == min(times + 1, 17))
  }

  /// The decision uses the status of the opened file, not of an earlier one.
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
}
