internal import Foundation
package import SystemPackage

/// A new directory, which the deinitializer removes with its contents.
package final class Workspace {
  package let path: FilePath

  /// - Parameter parent: The parent directory. If `nil`, it is `TMPDIR`, or `.build` if that is not set.
  package init(in parent: String?) throws {
    let parent = FilePath(parent ?? ProcessInfo.processInfo.environment["TMPDIR"] ?? ".build")
    try FileManager.default.createDirectory(atPath: parent.string, withIntermediateDirectories: true)
    path = parent.appending("blobcache-benchmark-\(UInt64.random(in: 0 ... .max))")
    try FileManager.default.createDirectory(
      atPath: path.string, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
  }

  deinit {
    // A directory that cannot be removed only takes space, and its name identifies its owner.
    try? FileManager.default.removeItem(atPath: path.string)
  }
}
