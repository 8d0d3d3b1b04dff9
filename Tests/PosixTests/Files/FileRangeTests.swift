import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// The blocks of parts of a file.
@Suite struct FileRangeTests {
  let temporary: TemporaryDirectory
  let plan = FaultPlan()

  init() throws { temporary = try TemporaryDirectory() }

  private func newFile() throws -> OpenFile {
    try openDirectory(at: temporary.path, plan.files()).createFile("file", permissions: .ownerReadWrite)
  }

  private func content() throws -> [UInt8] { Array(try Data(contentsOf: temporary.url("file"))) }

  @Test func aRangeGetsItsBlocksAndKeepsItsBytes() throws {
    let file = try newFile()
    let bytes = [UInt8](repeating: 7, count: 10_000)
    try file.write(bytes.span.bytes, at: 0)
    guard try file.allocate(4096..<20_480) else { return }
    #if os(Linux)
      #expect(try content() == bytes + [UInt8](repeating: 0, count: 10_480))
    #endif
    #expect(try content().starts(with: bytes))
    guard try file.punchHole(4096..<8192) else { return }
    let expected = bytes[..<4096] + [UInt8](repeating: 0, count: 4096) + bytes[8192...]
    #expect(try content().starts(with: expected))
    #if os(Linux)
      #expect(try content().count == 20_480)
    #endif
  }

  @Test(arguments: [SystemCall.allocateRange, .punchHole], [Errno.notSupported, .invalidArgument, .noFunction])
  func whereTheSystemCannotNothingHappens(call: SystemCall, errno: Errno) throws {
    plan.refuse(call, errno)
    let file = try newFile()
    try file.write(([1, 2] as [UInt8]).span.bytes, at: 0)
    #expect(try (call == .punchHole ? file.punchHole(0..<4096) : file.allocate(0..<4096)) == false)
    #expect(try content() == [1, 2])
  }

  @Test(arguments: [SystemCall.allocateRange, .punchHole], [Errno.noSpace, .diskQuotaExceeded, .ioError])
  func otherwiseItFails(call: SystemCall, errno: Errno) throws {
    plan.refuse(call, errno)
    let file = try newFile()
    let error = #expect(throws: FileError.self) {
      _ = try (file.allocate(0..<4096), file.punchHole(0..<4096))
    }
    #expect(error?.call == call && error?.errno == errno)
  }
}
