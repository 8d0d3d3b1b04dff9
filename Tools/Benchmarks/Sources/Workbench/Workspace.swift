internal import Foundation
package import SystemPackage

/// A fresh directory, removed with all that was put into it.
package final class Workspace {
  package let path: FilePath

  /// - Parameter parent: nil for `TMPDIR`, or for `.build` below the current directory where that is not set.
  package init(in parent: String?) throws {
    let parent = FilePath(parent ?? ProcessInfo.processInfo.environment["TMPDIR"] ?? ".build")
    try FileManager.default.createDirectory(atPath: parent.string, withIntermediateDirectories: true)
    path = parent.appending("blobcache-benchmark-\(UInt64.random(in: 0 ... .max))")
    try FileManager.default.createDirectory(
      atPath: path.string, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
  }

  deinit {
    // A directory that cannot be removed only takes room, and its name tells its owner.
    try? FileManager.default.removeItem(atPath: path.string)
  }
}
