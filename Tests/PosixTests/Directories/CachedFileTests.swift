import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Nonblocking lookups.
@Suite(.enabled(if: SystemCall.hasCachedLookups)) struct CachedFileTests {
  let temporary: TemporaryDirectory
  let plan = FaultPlan()

  init() throws { temporary = try TemporaryDirectory() }

  private func put(_ content: String) throws { try Data(content.utf8).write(to: temporary.url("file")) }

  /// Returns the outcome of a lookup in words, with a small first buffer and a large second one.
  private func lookUp(_ name: String = "file", in subdirectory: String = "") throws -> String {
    let directory = try openDirectory(at: temporary.path, plan.files())
    plan.forgetCalls()
    do throws(CachedLookupFailure) {
      switch try directory.openCachedFile(name, in: subdirectory) {
      case .absent: return "absent"
      case .notRegular: return "not regular"
      case .regular(let file, let status):
        return try withUnsafeTemporaryAllocation(byteCount: 16, alignment: 1) { buffer throws(CachedLookupFailure) in
          let (first, second) = (buffer[..<4], buffer[4...])
          let count = try file.readCached(
            into: UnsafeMutableRawBufferPointer(rebasing: first), UnsafeMutableRawBufferPointer(rebasing: second))
          return "\(String(decoding: buffer[..<count], as: UTF8.self)) of \(status.size)"
        }
      }
    } catch {
      return "\(error)"
    }
  }

  /// The calls of the last lookup, except for the last call, which closes the directory.
  private var calls: [SystemCall] { plan.calls.map(\.kind).dropLast() }

  @Test(arguments: ["", "x", "four", "five.", "sixteen bytes..."]) func aFileInMemoryIsRead(content: String) throws {
    try put(content)
    #expect(try lookUp() == "\(content) of \(content.utf8.count)")
    #expect(calls == [.openCached, .status, .readCached, .close])
    #expect(calls.allSatisfy { !$0.mayWait })
  }

  @Test func whatIsNotThereIsAbsent() throws {
    // The kernel caches that the file does not exist after the first lookup.
    _ = try openDirectory(at: temporary.path, Files()).openFile("file", for: .read)
    #expect(try lookUp() == "absent")
    #expect(calls == [.openCached])
  }

  @Test func whatIsNoRegularFileIsNotOpened() throws {
    let path = temporary.path.string + "/file"
    #expect(mkfifo(path, 0o600) == 0)
    #expect(try lookUp() == "not regular")
    #expect(unlink(path) == 0 && mkdir(path, 0o700) == 0)
    #expect(try lookUp() == "not regular")
    #expect(rmdir(path) == 0 && symlink("/etc/passwd", path) == 0)
    #expect(try lookUp() == "notCached")
    #expect(unlink(path) == 0 && symlink("/etc", path) == 0)
    #expect(try lookUp("passwd", in: "file") == "notCached")
    #expect(try lookUp("..", in: "") == "notCached")
  }

  /// Each errno of each call has a defined outcome: the ordinary lookup is needed, or the file is absent.
  @Test(
    arguments: [
      (.openCached, .resourceTemporarilyUnavailable, "notCached"), (.openCached, .permissionDenied, "notCached"),
      (.openCached, .improperLink, "notCached"), (.openCached, .ioError, "notCached"),
      (.openCached, .noFunction, "unsupported"), (.openCached, .invalidArgument, "unsupported"),
      (.openCached, .notPermitted, "unsupported"), (.openCached, .noSuchFileOrDirectory, "absent"),
      (.status, .ioError, "notCached"), (.readCached, .resourceTemporarilyUnavailable, "notCached"),
      (.readCached, .notSupportedOnSocket, "unsupported"), (.readCached, .noFunction, "unsupported"),
      (.readCached, .ioError, "notCached"), (.close, .ioError, "content of 7"),
    ] as [(SystemCall, Errno, String)])
  func whatFailsIsTyped(call: SystemCall, errno: Errno, outcome: String) throws {
    try put("content")
    plan.refuse(call, errno)
    #expect(try lookUp() == outcome)
    // The file that was opened is closed.
    #expect(call == .openCached || calls.last == .close)
  }

  @Test(arguments: SystemCall.allCases.filter { !$0.mayWait && $0 != .close }) func interruptedCallsAreMadeAgain(
    call: SystemCall
  ) throws {
    try put("content")
    let directory = try openDirectory(at: temporary.path, plan.files())
    plan.arm(FaultPlan.Fault(.interrupted, call: 1, of: [call]))
    guard case .regular(let file, _) = try directory.openCachedFile("file", in: "") else {
      Issue.record("there is no file")
      return
    }
    let count = try withUnsafeTemporaryAllocation(byteCount: 16, alignment: 1) { try file.readCached(into: $0) }
    #expect(count == 7)
    #expect(plan.failed.count == 1)
  }

  /// A read ends early if the rest of the file is only on the disk.
  @Test(arguments: 0...7) func aReadMayBeShort(byteCount: Int) throws {
    try put("content")
    plan.limitTransfers { _ in byteCount }
    #expect(try lookUp() == (byteCount == 0 ? " of 7" : "\("content".prefix(byteCount)) of 7"))
    #expect(calls == [.openCached, .status, .readCached, .close])
  }

  /// A file that the kernel has evicted from memory is not read from the disk; the ordinary read returns it.
  @Test func aFileOnTheDiskIsLeftThere() throws {
    let content = Data(repeating: 7, count: 1 << 20)
    let descriptor = open(temporary.path.string + "/file", O_RDWR | O_CREAT, 0o600)
    defer { close(descriptor) }
    #expect(content.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) } == content.count)
    #expect(fsync(descriptor) == 0)
    #if os(Linux)
      #expect(posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED) == 0)
    #endif
    let directory = try openDirectory(at: temporary.path, plan.files())
    guard case .regular(let file, _) = try directory.openCachedFile("file", in: "") else {
      Issue.record("there is no file")
      return
    }
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: content.count, alignment: 8)
    defer { buffer.deallocate() }
    // The part that is still in memory is valid, because the kernel may ignore the request to evict it.
    let count = (try? file.readCached(into: buffer)) ?? 0
    #expect(Data(buffer[..<count]) == content.prefix(count))
    let whole = try file.read(into: buffer, at: 0)
    #expect(whole == content.count && Data(buffer) == content)
  }

  /// Updating an access time may wait for the journal, so another user's file is not opened again.
  @Test func whereTheTimeOfAccessMovesNothingIsTried() throws {
    try put("content")
    let directory = try openDirectory(at: temporary.path, plan.files())
    // When openat2 is refused, each path component is opened separately. Both calls find O_NOATIME refused.
    plan.arm(FaultPlan.Fault(.notPermitted, call: 1, of: [.openBeneath]))
    plan.refuse(.open, .notPermitted)
    guard case .regular = try directory.openFile("file", for: .read) else {
      Issue.record("there is no file")
      return
    }
    plan.forgetCalls()
    let failure = #expect(throws: CachedLookupFailure.self) { _ = try directory.openCachedFile("file", in: "") }
    #expect(failure == .unsupported)
    #expect(plan.calls.isEmpty)
  }
}
