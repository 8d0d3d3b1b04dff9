import Foundation
import MemoryCache
import Posix
import SystemPackage
import TestSupport

/// Test files in place of the kernel's files.
final class FakeSystem: Sendable {
  let directory: TemporaryDirectory

  init(membership: String) throws {
    directory = try TemporaryDirectory(inMemory: true)
    try write("proc/self/cgroup", membership)
  }

  /// Creates a group of version 2 at the root of the mount, with sizes in bytes.
  convenience init(used: Int, limit: Int) throws {
    try self.init(membership: "0::/\n")
    try write("sys/fs/cgroup/memory.current", "\(used)\n")
    try write("sys/fs/cgroup/memory.max", "\(limit)\n")
  }

  func write(_ path: String, _ text: String) throws {
    let url = directory.url(path)
    try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
    try Data(text.utf8).write(to: url)
  }

  func text(_ path: String) throws -> String { try String(contentsOf: directory.url(path), encoding: .utf8) }

  func group(_ files: Files = Files()) throws -> ControlGroup? {
    try ControlGroup(root: directory.path, files: files)
  }

  /// - Parameter period: The interval of the monitor's periodic checks.
  func monitor(_ files: Files = Files(), period: Duration = .milliseconds(1)) -> MemoryPressureMonitor {
    MemoryPressureMonitor(
      environment: PressureEnvironment(root: directory.path.string, files: files, period: period))
  }
}

var isLinux: Bool {
  #if os(Linux)
    true
  #else
    false
  #endif
}
