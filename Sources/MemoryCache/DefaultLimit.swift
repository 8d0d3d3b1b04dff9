package import Posix
package import SystemPackage

/// How many bytes a cache in memory takes that was not told how many.
package enum DefaultLimit {
  package static let mostBytes = 64 << 20
  /// The part of a control group's limit that a cache may have: the rest is the program's.
  package static let groupFraction = 8

  /// That of this process, found out once: it is part of configurations, which are compared.
  package static let ofProcess = byteCount(root: "/", files: Files())

  /// The least of 64 MiB and an eighth of the tightest limit of the process's control groups.
  package static func byteCount(root: FilePath, files: Files) -> Int {
    // What cannot be read here cannot be watched either, and the watch says so.
    guard let limit = try? ControlGroup(root: root, files: files)?.tightestLimit() else { return mostBytes }
    return min(mostBytes, Int(clamping: limit) / groupFraction)
  }
}
