#if os(Linux)
  import Foundation
  import Locks
  import Posix
  import SystemPackage
  import TestSupport
  import Testing

  @Suite struct AccessTimeTests {
    let temporary: TemporaryDirectory
    private static let longAgo = 1_000_000_000

    /// Creates a file that was last read before it was written, so that the next read would change its access time.
    init() throws {
      temporary = try TemporaryDirectory()
      try Data("content".utf8).write(to: temporary.url("file"))
      let times = [timespec(tv_sec: Self.longAgo, tv_nsec: 0), timespec(tv_sec: Self.longAgo + 1, tv_nsec: 0)]
      #expect(utimensat(AT_FDCWD, temporary.path.string + "/file", times, 0) == 0)
    }

    private var accessTime: Int {
      var status = stat()
      #expect(stat(temporary.path.string + "/file", &status) == 0)
      return status.st_atim.tv_sec
    }

    private func read(_ name: String, in directory: borrowing Directory, for access: FileAccess) throws {
      guard case .regular(let file, _) = try directory.openFile(name, for: access) else {
        Issue.record("there is no file")
        return
      }
      let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 7, alignment: 1)
      defer { buffer.deallocate() }
      let count = try file.read(into: buffer, at: 0)
      #expect(count == 7)
    }

    @Test(arguments: [FileAccess.read, .readWrite]) func readingLeavesItAlone(access: FileAccess) throws {
      try read("file", in: openDirectory(at: temporary.path, Files()), for: access)
      #expect(accessTime == Self.longAgo)
    }

    @Test func walkingLeavesItAlone() throws {
      let directory = try openDirectory(at: temporary.path, Files())
      var stream = try directory.entries()
      let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 7, alignment: 1)
      defer { buffer.deallocate() }
      while try stream.next() != nil {
        guard case .regular(_, let count) = try directory.readStart(of: stream, into: buffer) else { continue }
        #expect(count == 7)
      }
      #expect(accessTime == Self.longAgo)
    }

    /// Another user's file is read too, and from then on O_NOATIME is not used.
    @Test func whoMayNotLeaveItAloneChangesIt() throws {
      let calls = Lock([SystemCall]())
      let files = Files { call, _ in
        guard call == .openBeneath || call == .open else { return nil }
        // When openat2 is refused, each path component is opened separately.
        return calls.withLock { calls in
          calls.append(call)
          return calls.count <= 2 ? .fail(.notPermitted) : nil
        }
      }
      let directory = try openDirectory(at: temporary.path, files)
      for _ in 0..<2 { try read("file", in: directory, for: .read) }
      #expect(calls.withLock { $0 } == [.openBeneath, .open, .openBeneath, .openBeneath])
    }
  }
#endif
