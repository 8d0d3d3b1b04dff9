import CRawFiles
import Foundation
package import SystemPackage

/// Waits until all unwritten bytes of a directory's file system are on the medium.
package func synchronizeFileSystem(of directory: FilePath) throws {
  let root = open(directory.string, O_RDONLY | O_DIRECTORY)
  try BenchmarkFailure.check(root, "opening \(directory)")
  defer { _ = raw_close(root) }
  try BenchmarkFailure.check(raw_sync(root), "syncing \(directory)")
}
