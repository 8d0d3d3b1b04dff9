import Foundation
import MemoryCache
import Posix
import SystemPackage
import Testing

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#endif

#if os(Linux)
  /// A control group with a limit, below the group of the tests, which a child process joins.
  struct MemoryGroup {
    private let path: FilePath

    /// Returns the group that the process creates for its children.
    private static func path(madeBy process: pid_t) throws -> (path: FilePath, version: ControlGroup.Version)? {
      guard let group = try ControlGroup(root: "/", files: Files()), let own = group.directories.first else {
        return nil
      }
      return (own.appending("blobcache-test-\(process)"), group.version)
    }

    /// A Boolean value that indicates whether this process can create a group: as root, with a delegable controller.
    static let canBeMade: Bool = {
      guard let group = try? MemoryGroup(limit: 1 << 30) else { return false }
      group.remove()
      return true
    }()

    /// - Parameter limit: The memory limit in bytes, without swap.
    init(limit: Int) throws {
      guard let (path, version) = try Self.path(madeBy: getpid()) else { throw Errno.noSuchFileOrDirectory }
      self.path = path
      guard mkdir(path.string, 0o755) == 0 else { throw Errno(rawValue: errno) }
      do {
        try write(version == .v2 ? "memory.max" : "memory.limit_in_bytes", "\(limit)")
        let swap = version == .v2 ? ("memory.swap.max", "0") : ("memory.memsw.limit_in_bytes", "\(limit)")
        if FileManager.default.fileExists(atPath: path.appending(swap.0).string) { try write(swap.0, swap.1) }
      } catch {
        remove()
        throw error
      }
    }

    private func write(_ name: String, _ text: String) throws {
      let file = try FileDescriptor.open(path.appending(name), .writeOnly)
      try file.closeAfter { _ = try file.writeAll(text.utf8) }
    }

    /// Moves this process into the group that its parent has created.
    static func join() throws {
      let path = try #require(try Self.path(madeBy: getppid())).path
      let file = try FileDescriptor.open(path.appending("cgroup.procs"), .writeOnly)
      try file.closeAfter { _ = try file.writeAll("0".utf8) }
    }

    /// Removes the group after its processes have ended.
    func remove() { rmdir(path.string) }
  }
#endif
