package import BlobRecord
package import Foundation
package import SystemPackage

/// Returns every file below a directory with its bytes, including hidden files, without the code under test.
///
/// The control file, the settings and the recycling bin are excluded because they contain no blobs, and packs because
/// a model does not predict them. Paths are relative, and are keys because keys are compared by their bytes.
package func contents(of directory: FilePath) throws -> [BlobKey: Data] {
  var files: [BlobKey: Data] = [:]
  guard FileManager.default.fileExists(atPath: directory.string) else { return files }
  for path in try FileManager.default.subpathsOfDirectory(atPath: directory.string) {
    let ownFiles = [".blobcache", ".blobcache-uses", ".blobcache.conf", ".blobcache.used", ".recycled"]
    guard !ownFiles.contains(path), !path.hasPrefix(".recycled/"), !path.hasPrefix(".packs/")
    else {
      continue
    }
    let full = directory.string + "/" + path
    var isDirectory: ObjCBool = false
    guard FileManager.default.fileExists(atPath: full, isDirectory: &isDirectory), !isDirectory.boolValue else {
      continue
    }
    files[BlobKey(path)] = try Data(contentsOf: URL(filePath: full))
  }
  return files
}

/// Returns the paths below a directory that this process has open, on Linux; otherwise an empty array.
package func openPaths(below directory: FilePath) -> [String] {
  let table = "/proc/self/fd"
  // The table does not exist on other systems.
  let numbers = (try? FileManager.default.contentsOfDirectory(atPath: table)) ?? []
  return numbers.compactMap { number in
    // A descriptor that was closed in the meantime has no target.
    let target = try? FileManager.default.destinationOfSymbolicLink(atPath: table + "/" + number)
    return target.flatMap { $0.hasPrefix(directory.string) ? $0 : nil }
  }
}
