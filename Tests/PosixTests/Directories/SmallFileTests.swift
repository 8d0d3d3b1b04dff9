import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@Suite struct SmallFileTests {
  let temporary: TemporaryDirectory
  let plan = FaultPlan()

  init() throws { temporary = try TemporaryDirectory() }

  /// Returns the outcome of a read in words, and closes the descriptor of a larger file.
  private func read(
    _ name: String, room: Int = 16, tellsOwner: Bool, asksStatus: Bool = false, owner: UInt32 = geteuid(),
    rootMode: CInterop.Mode = 0o700
  ) throws -> String {
    let directory = try openDirectory(at: temporary.path, plan.files(accessTimeTellsOwner: tellsOwner))
    let owners = FileOwners(
      caller: UserID(rawValue: owner), directoryOwner: UserID(rawValue: owner),
      directoryGroup: GroupID(rawValue: getegid()), directoryPermissions: FilePermissions(rawValue: rootMode))
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: room, alignment: 1)
    defer { buffer.deallocate() }
    plan.forgetCalls()
    let file = try directory.readSmallFile(name, in: "", of: owners, asksStatus: asksStatus, into: buffer)
    switch consume file {
    case .read(let byteCount): return String(decoding: buffer[..<byteCount], as: UTF8.self)
    case .larger(_, let status): return "larger: \(status.size)"
    case .absent: return "absent"
    case .foreign: return "foreign"
    case .exposed: return "exposed"
    }
  }

  /// The calls of the last read, except for the last call, which closes the directory.
  private var calls: [SystemCall] { plan.calls.map(\.kind).dropLast() }

  private func put(_ content: String) throws {
    try Data(content.utf8).write(to: temporary.url("file"))
  }

  @Test(arguments: [true, false], ["", "x", "fifteen bytes.."])
  func whatFitsIsRead(tellsOwner: Bool, content: String) throws {
    try put(content)
    #expect(try read("file", tellsOwner: tellsOwner) == content)
    let asks = try read("file", tellsOwner: tellsOwner, asksStatus: true)
    #expect(asks == content)
  }

  /// A file that fills the buffer may continue.
  @Test(arguments: [true, false], [16, 17, 5000]) func whatFillsTheRoomIsOpen(tellsOwner: Bool, byteCount: Int) throws {
    try put(String(repeating: "x", count: byteCount))
    #expect(try read("file", tellsOwner: tellsOwner) == "larger: \(byteCount)")
    #expect(calls == [.openBeneath] + (tellsOwner ? [.read] : []) + [.status, .close])
  }

  @Test func theStatusIsAskedForOnlyWhereItTellsMore() throws {
    try put("content")
    #expect(try read("file", tellsOwner: true) == "content")
    #expect(calls == [.openBeneath, .read, .close])
    #expect(try read("file", tellsOwner: true, asksStatus: true) == "content")
    #expect(calls == [.openBeneath, .status, .read, .close])
    #expect(try read("file", tellsOwner: false) == "content")
    #expect(calls == [.openBeneath, .status, .read, .close])
  }

  @Test(arguments: [true, false]) func whatIsNotThereIsAbsent(tellsOwner: Bool) throws {
    #expect(try read("file", tellsOwner: tellsOwner) == "absent")
  }

  @Test(.timeLimit(.minutes(30)), arguments: [true, false]) func whatIsNoRegularFileIsForeign(tellsOwner: Bool) throws {
    let path = temporary.path.string + "/file"
    #expect(mkfifo(path, 0o600) == 0)
    #expect(try read("file", tellsOwner: tellsOwner) == "foreign")
    #expect(unlink(path) == 0)
    #expect(mkdir(path, 0o700) == 0)
    #expect(try read("file", tellsOwner: tellsOwner) == "foreign")
    #expect(rmdir(path) == 0)
    #expect(symlink("/etc/passwd", path) == 0)
    #expect(try read("file", tellsOwner: tellsOwner) == "foreign")
  }

  @Test(arguments: [true, false]) func anothersFileIsForeign(asksStatus: Bool) throws {
    try put("content")
    #expect(try read("file", tellsOwner: false, asksStatus: asksStatus, owner: 12_345) == "foreign")
    #expect(calls == [.openBeneath, .status, .close])
  }

  /// A failed read is repeated once if the status shows that the file has content.
  @Test func aReadThatGoesOnFailingIsAnError() throws {
    try put("content")
    plan.arm(FaultPlan.Fault(.ioError, call: 1, of: [.read], .fromThenOn))
    let error = #expect(throws: FileError.self) { try read("file", tellsOwner: true) }
    #expect(error?.errno == .ioError && error?.call == .read && error?.path == temporary.path.appending("file"))
    #expect(calls == [.openBeneath, .read, .status, .read, .close])
  }

  @Test(arguments: [SystemCall.status, .read]) func noDescriptorIsLeftOpenByFailures(call: SystemCall) throws {
    try put("content")
    plan.arm(FaultPlan.Fault(.ioError, call: 1, of: [call], .fromThenOn))
    #expect(throws: FileError.self) { try read("file", tellsOwner: false) }
    #expect(calls.last == .close)
  }
}
