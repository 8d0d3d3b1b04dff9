import Foundation
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

@Suite struct OpenFileTests {
  let temporary: TemporaryDirectory
  let plan = FaultPlan()

  init() throws {
    temporary = try TemporaryDirectory()
  }

  private func directory() throws -> Directory {
    try openDirectory(at: temporary.path, plan.files())
  }

  private func newFile(_ name: String = "file") throws -> OpenFile {
    try directory().createFile(name, permissions: .ownerReadWrite)
  }

  private static func bytes(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ 7) } }

  private func content(_ name: String = "file") throws -> [UInt8] {
    Array(try Data(contentsOf: temporary.url(name)))
  }

  @Test(arguments: [0, 1, 63, 64, 65, 100, 163, 164])
  func twoSpansAreWrittenWholeWhereverTheCallIsCut(cut: Int) throws {
    plan.limitTransfers { $0 == 1 ? max(cut, 1) : nil }
    let head = Self.bytes(64)
    let tail = Self.bytes(100)
    try newFile().write(head.span.bytes, tail.span.bytes)
    #expect(try content() == head + tail)
    #expect(plan.transfers == (cut < 164 ? 2 : 1))
  }

  /// musl and bionic report these errors if a file system lacks the call.
  @Test(arguments: [Errno.notSupported, .invalidArgument, .noFunction], [0, 1, 1 << 16, 3 << 16 | 1] as [Int64])
  func whereBlocksCannotBeAllocatedZerosAreWritten(errno: Errno, byteCount: Int64) throws {
    let files = Files { call, _ in call == .allocate ? .fail(errno) : nil }
    let file = try openDirectory(at: temporary.path, files).createFile("file", permissions: .ownerReadWrite)
    try file.allocate(byteCount: byteCount)
    #expect(try content() == [UInt8](repeating: 0, count: Int(byteCount)))
  }

  @Test(arguments: [Errno.noSpace, .diskQuotaExceeded, .ioError]) func otherwiseAllocatingFails(errno: Errno) throws {
    let files = Files { call, _ in call == .allocate ? .fail(errno) : nil }
    let file = try openDirectory(at: temporary.path, files).createFile("file", permissions: .ownerReadWrite)
    let error = #expect(throws: FileError.self) { try file.allocate(byteCount: 10) }
    #expect(error?.errno == errno)
  }

  @Test(arguments: [1, 2, 63, 64, 65, 100, 164])
  func twoBuffersAreReadWholeWhereverTheCallIsCut(step: Int) throws {
    let stored = Self.bytes(164)
    try Data(stored).write(to: temporary.url("file"))
    plan.limitTransfers { _ in step }
    guard case .regular(let file, _) = try directory().openFile("file", for: .read) else {
      Issue.record("it is a regular file")
      return
    }
    var head = [UInt8](repeating: 0, count: 64)
    var tail = [UInt8](repeating: 0, count: 200)
    let count = try head.withUnsafeMutableBytes { head in
      try tail.withUnsafeMutableBytes { tail in try file.read(into: head, tail) }
    }
    #expect(count == 164)
    #expect(head + tail.prefix(100) == stored)
    // The last call reads the end of the file.
    #expect(plan.transfers == (164 + step - 1) / step + 1)
  }

  @Test func readingStopsAtTheEndOfTheFile() throws {
    let file = try newFile()
    try file.write(Self.bytes(10).span.bytes, at: 5)
    var buffer = [UInt8](repeating: 0xEE, count: 20)
    #expect(try buffer.withUnsafeMutableBytes { try file.read(into: $0, at: 3) } == 12)
    #expect(buffer == [0, 0] + Self.bytes(10) + [UInt8](repeating: 0xEE, count: 8))
    #expect(try buffer.withUnsafeMutableBytes { try file.read(into: $0, at: 100) } == 0)
  }

  @Test(arguments: [SystemCall.read, .write, .status, .sync, .lock, .setPermissions, .setOwner])
  func interruptedCallsAreMadeAgain(call: SystemCall) throws {
    let file = try newFile()
    plan.arm(FaultPlan.Fault(.interrupted, call: 1, of: [call]))
    try Self.make(call, on: file)
    #expect(plan.failed.count == 1)
  }

  @Test(arguments: [SystemCall.read, .write, .status, .sync, .lock, .setPermissions, .setOwner])
  func errorsSayWhichCallOnWhatAndWhy(call: SystemCall) throws {
    let file = try newFile()
    plan.arm(FaultPlan.Fault(.ioError, call: 1, of: [call]))
    let error = #expect(throws: FileError.self) { try Self.make(call, on: file) }
    #expect(error?.call == call)
    #expect(error?.errno == .ioError)
    #expect(error?.path == temporary.path.appending("file"))
  }

  private static func make(_ call: SystemCall, on file: borrowing OpenFile) throws {
    switch call {
    case .read:
      var byte: [UInt8] = [0]
      _ = try byte.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
    case .write: try file.write(bytes(1).span.bytes, at: 0)
    case .status: _ = try file.status()
    case .sync: try file.synchronize(.full)
    case .lock: _ = try file.tryLock()
    case .setPermissions: try file.setPermissions(.ownerReadWrite)
    case .setOwner: try file.setOwner(user: nil, group: nil)
    default: Issue.record("no call of a file: \(call)")
    }
  }

  /// The descriptor is closed whatever the close reports: never twice, and never leaked.
  @Test func failedCloseIsReportedAndStillCloses() throws {
    let file = try newFile()
    plan.arm(FaultPlan.Fault(.ioError, call: 1, of: [.close]))
    do throws(FileError) {
      try file.close()
      Issue.record("the close failed")
    } catch {
      #expect(error.call == .close)
      #expect(error.errno == .ioError)
    }
    #expect(openPaths(below: temporary.path.appending("file")).isEmpty)
  }

  @Test func interruptedCloseIsDone() throws {
    let file = try newFile()
    plan.arm(FaultPlan.Fault(.interrupted, call: 1, of: [.close]))
    try file.close()
    #expect(plan.calls.filter { $0.kind == .close && $0.path.lastComponent == "file" }.count == 1)
    #expect(openPaths(below: temporary.path.appending("file")).isEmpty)
  }

  @Test func lockExcludesAnotherDescriptionUntilItsFileIsClosed() throws {
    let first = try newFile()
    guard case .regular(let second, _) = try directory().openFile("file", for: .read) else {
      Issue.record("it is a regular file")
      return
    }
    #expect(try first.tryLock())
    #expect(try first.tryLock())
    #expect(try !second.tryLock())
    try first.close()
    #expect(try second.tryLock())
  }

  /// A missing attribute, and a file system without attributes, are not errors.
  @Test(arguments: [.notSupported, .outOfRange, .ioError] as [Errno])
  func attributeThatCannotBeReadIsAnErrorUnlessThereIsNone(errno: Errno) throws {
    let file = try newFile()
    #expect(try file.attribute("user.absent", byteCount: 8) == nil)
    plan.arm(FaultPlan.Fault(errno, call: 1, of: [.readAttribute]))
    guard errno == .ioError else {
      #expect(try file.attribute("user.absent", byteCount: 8) == nil)
      return
    }
    let error = #expect(throws: FileError.self) { _ = try file.attribute("user.absent", byteCount: 8) }
    #expect(error?.errno == errno)
  }

  /// Names that do not fit into the buffer are attributes too; a file system without attributes has none.
  @Test(arguments: [(.notSupported, false), (.outOfRange, true), (.ioError, nil)] as [(Errno, Bool?)])
  func attributesThatCannotBeListed(errno: Errno, answer: Bool?) throws {
    let file = try newFile()
    #expect(try !file.hasAttributes())
    plan.arm(FaultPlan.Fault(errno, call: 1, of: [.listAttributes]))
    if let answer { return #expect(try file.hasAttributes() == answer) }
    let error = #expect(throws: FileError.self) { _ = try file.hasAttributes() }
    #expect(error?.errno == errno)
  }

  @Test func writeThatMovesNothingIsAnError() throws {
    let file = try newFile()
    plan.limitTransfers { _ in 0 }
    let error = #expect(throws: FileError.self) { try file.write(Self.bytes(1).span.bytes, at: 0) }
    #expect(error?.errno == .ioError)
  }

  // MARK: What the kernel itself refuses

  /// This uses no interceptor, so the errno is the kernel's.
  @Test func errorsOfTheKernelAreReported() throws {
    try Data([1]).write(to: temporary.url("file"))
    guard case .regular(let file, _) = try directory().openFile("file", for: .read) else {
      Issue.record("it is a regular file")
      return
    }
    let written = #expect(throws: FileError.self) { try file.write([1, 2].span.bytes, at: 0) }
    #expect(written?.errno == .badFileDescriptor)
    let mapped = #expect(throws: FileError.self) { _ = try file.map(byteCount: 0) }
    let read = #expect(throws: FileError.self) { try file.withMappedBytes(byteCount: 0) { _ in } }
    #expect(read?.call == .map && read?.errno == .invalidArgument)
    #expect(mapped?.errno == .invalidArgument)
  }
}
