package import Posix
package import SystemPackage

/// How many bytes a cache in memory takes that was not told how many.
package enum DefaultLimit {
  package static let mostBytes = 64 << 20
  /// A cache may have one part in so many of a control group's limit.
  package static let groupFraction = 8

  /// That of this process, found out once: it is part of configurations, which are compared.
  package static let ofProcess = byteCount(root: "/", files: Files())

  /// 64 MiB, or less where an eighth of the control groups' tightest limit is less.
  package static func byteCount(root: FilePath, files: Files) -> Int {
    // A group that cannot be read here cannot be watched either, and the watch says so.
    guard let limit = try? ControlGroup(root: root, files: files)?.tightestLimit() else { return mostBytes }
    return min(mostBytes, Int(clamping: limit) / groupFraction)
  }
}
