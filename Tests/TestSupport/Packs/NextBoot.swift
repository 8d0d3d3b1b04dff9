internal import BlobStore
internal import Foundation

/// A simulated restart of the system, after which the index of the packs has a different boot identifier.
package enum NextBoot {
  package static func begin(in cache: String) throws {
    for name in ["index", "index.next"] {
      let path = "\(cache)/.packs/\(name)"
      guard FileManager.default.fileExists(atPath: path) else { continue }
      let file = try FileHandle(forUpdating: URL(filePath: path))
      defer { try? file.close() }
      try file.seek(toOffset: UInt64(IndexLayout.bootOffset))
      // A partially written index may lack the boot identifier.
      guard let boot = try file.read(upToCount: 16), boot.count == 16 else { continue }
      try file.seek(toOffset: UInt64(IndexLayout.bootOffset))
      try file.write(contentsOf: Data(boot.map { ~$0 }))
    }
  }
}
