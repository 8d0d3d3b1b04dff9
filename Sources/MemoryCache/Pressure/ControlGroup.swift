package import Posix
package import SystemPackage

/// The memory of this process's control group, and of the groups above it.
///
/// Source: the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst; cgroups(7).
package struct ControlGroup: Sendable {
  package enum Version: Sendable { case v1, v2 }

  package let version: Version
  /// The process's group first, then those above it that can have a limit.
  package let directories: [FilePath]
  private let files: Files

  /// Finds the group.
  ///
  /// - Parameter root: where the file system begins; another one in tests.
  /// - Returns: nil where there is no control group with a memory controller.
  package init?(root: FilePath, files: Files) throws(FileError) {
    guard let membership = try files.text(of: root.appending("proc/self/cgroup")) else { return nil }
    self.files = files
    let mounts = root.appending("sys/fs/cgroup")
    for line in membership.split(separator: "\n") {
      // hierarchy:controllers:path
      let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
      guard fields.count == 3 else { continue }
      let isUnified = fields[0] == "0" && fields[1].isEmpty
      guard isUnified || fields[1].split(separator: ",").contains("memory") else { continue }
      let usage = isUnified ? "memory.current" : "memory.usage_in_bytes"
      // Both versions side by side have the second in a directory of its own.
      for mount in isUnified ? [mounts, mounts.appending("unified")] : [mounts.appending("memory")] {
        let found = try Self.directories(below: mount, String(fields[2]), with: usage, files)
        guard !found.isEmpty else { continue }
        version = isUnified ? .v2 : .v1
        directories = found
        return
      }
    }
    return nil
  }

  /// The group's directory and those above it which have a file of this name.
  ///
  /// A container may see its own group at the mount's root and be told a path of the host's, which is not there.
  private static func directories(
    below mount: FilePath, _ path: String, with name: String, _ files: Files
  ) throws(FileError) -> [FilePath] {
    var components = FilePath(path).components.filter { $0.kind == .regular }
    var found: [FilePath] = []
    while true {
      let directory = mount.appending(components)
      if try files.text(of: directory.appending(name)) != nil { found.append(directory) }
      if components.isEmpty { return found }
      components.removeLast()
    }
  }

  /// The file with the group's pressure stall information; nil with version 1, which lacks it.
  package var stallFile: FilePath? { version == .v2 ? directories.first?.appending("memory.pressure") : nil }

  /// The part of its tightest limit that is in use.
  ///
  /// The page cache does not count, because the kernel drops it first.
  ///
  /// - Returns: nil where no group has a limit.
  package func usedShare() throws(FileError) -> Double? {
    var greatest: Double?
    for directory in directories {
      guard let limit = try limit(of: directory), limit > 0,
        let usage = try number(in: directory, version == .v2 ? "memory.current" : "memory.usage_in_bytes")
      else { continue }
      let used = Double(max(usage - (try pageCache(of: directory)), 0))
      greatest = max(greatest ?? 0, used / Double(limit))
    }
    return greatest
  }

  /// The least limit of all the groups, in bytes; nil where none has one.
  package func tightestLimit() throws(FileError) -> Int64? {
    var least: Int64?
    for directory in directories {
      guard let limit = try limit(of: directory), limit > 0 else { continue }
      least = min(least ?? limit, limit)
    }
    return least
  }

  /// The least of the limits at which the kernel throttles or ends processes.
  ///
  /// With version 1 the kernel also tells those of groups above that a container does not see.
  private func limit(of directory: FilePath) throws(FileError) -> Int64? {
    var limits: [Int64?] = []
    switch version {
    case .v1:
      limits.append(try number(in: directory, "memory.limit_in_bytes"))
      limits.append(try statistics(of: directory)["hierarchical_memory_limit"])
    case .v2:
      for name in ["memory.max", "memory.high"] { limits.append(try number(in: directory, name)) }
    }
    // "max", and in version 1 a number near 2^63, stand for none.
    return limits.compactMap(\.self).filter { $0 < 1 << 62 }.min()
  }

  private func pageCache(of directory: FilePath) throws(FileError) -> Int64 {
    let prefix = version == .v2 ? "" : "total_"
    let statistics = try statistics(of: directory)
    return ["inactive_file", "active_file"].reduce(0) { sum, name in
      sum + min(statistics[prefix + name] ?? 0, 1 << 60)
    }
  }

  /// The numbers of `memory.stat`, by name.
  private func statistics(of directory: FilePath) throws(FileError) -> [Substring: Int64] {
    var statistics: [Substring: Int64] = [:]
    for line in try files.text(of: directory.appending("memory.stat"))?.split(separator: "\n") ?? [] {
      let fields = line.split(separator: " ")
      guard fields.count == 2, let number = Int64(fields[1]) else { continue }
      statistics[fields[0]] = max(number, 0)
    }
    return statistics
  }

  private func number(in directory: FilePath, _ name: String) throws(FileError) -> Int64? {
    guard let text = try files.text(of: directory.appending(name)) else { return nil }
    return Int64(text.split(separator: "\n").first ?? "").map { max($0, 0) }
  }
}
