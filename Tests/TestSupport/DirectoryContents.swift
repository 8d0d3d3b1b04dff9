package import BlobRecord
package import Foundation
package import SystemPackage

/// Every file below a directory, hidden ones too, with its bytes: read without the code under test. The control file,
/// the settings and the recycling bin are left out: they hold no blobs. So are packs, which a model does not predict.
///
/// Paths are relative; they are keys, because keys are compared by their bytes.
package func contents(of directory: FilePath) throws -> [BlobKey: Data] {
  var files: [BlobKey: Data] = [:]
  guard FileManager.default.fileExists(atPath: directory.string) else { return files }
  for path in try FileManager.default.subpathsOfDirectory(atPath: directory.string) {
    guard path != ".blobcache", path != ".blobcache-uses", path != ".blobcache.conf", path != ".recycled",
      !path.hasPrefix(".recycled/"), !path.hasPrefix(".packs/")
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

/// What the descriptors of this process that lie below a directory are open on. Linux only; empty elsewhere.
package func openPaths(below directory: FilePath) -> [String] {
  let table = "/proc/self/fd"
  // Without the table there is nothing to see.
  let numbers = (try? FileManager.default.contentsOfDirectory(atPath: table)) ?? []
  return numbers.compactMap { number in
    // One that has been closed since leads nowhere.
    let target = try? FileManager.default.destinationOfSymbolicLink(atPath: table + "/" + number)
    return target.flatMap { $0.hasPrefix(directory.string) ? $0 : nil }
  }
}
