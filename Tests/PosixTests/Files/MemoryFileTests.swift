#if os(Linux)
  import Foundation
  import Posix
  import SystemPackage
  import TestSupport
  import Testing

  /// Files that exist only in memory.
  @Suite struct MemoryFileTests {
    let temporary: TemporaryDirectory
    let plan = FaultPlan()

    init() throws { temporary = try TemporaryDirectory() }

    private func directory() throws -> Directory { try openDirectory(at: temporary.path, plan.files()) }

    @Test func aMemoryFileIsItsOwnersAndHasNoName() throws {
      let directory = try directory()
      guard let file = try directory.createMemoryFile() else {
        Issue.record("memfd_create is refused")
        return
      }
      try file.write([UInt8]([7, 8]).span.bytes, at: 0)
      let status = try file.status()
      #expect(status.size == 2)
      #expect(status.permissions == .ownerReadWrite)
      #expect(try temporary.names() == [])
    }

    /// A filter of system calls may refuse them, and the caller works without them.
    @Test(arguments: [Errno.noFunction, .notPermitted, .notSupported, .permissionDenied])
    func aSystemWithoutMemoryFilesIsNoError(errno: Errno) throws {
      plan.refuse(.openMemory, errno)
      let directory = try directory()
      if try directory.createMemoryFile() != nil { Issue.record("made all the same") }
    }

    @Test func aFailureIsAnError() throws {
      plan.refuse(.openMemory, .noMemory)
      let directory = try directory()
      #expect(throws: FileError.self) { _ = try directory.createMemoryFile() }
    }
  }
#endif
