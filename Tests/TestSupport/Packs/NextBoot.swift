internal import BlobStore
internal import Foundation

/// The system's next start, as packs see it: what was in memory of their index is gone, and its boot is another one.
package enum NextBoot {
  package static func begin(in cache: String) throws {
    for name in ["index", "index.next"] {
      let path = "\(cache)/.packs/\(name)"
      guard FileManager.default.fileExists(atPath: path) else { continue }
      let file = try FileHandle(forUpdating: URL(filePath: path))
      defer { try? file.close() }
      try file.seek(toOffset: UInt64(IndexLayout.bootOffset))
      // Half written, it may have none.
      guard let boot = try file.read(upToCount: 16), boot.count == 16 else { continue }
      try file.seek(toOffset: UInt64(IndexLayout.bootOffset))
      try file.write(contentsOf: Data(boot.map { ~$0 }))
    }
  }
}
