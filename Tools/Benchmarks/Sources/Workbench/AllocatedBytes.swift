internal import Foundation
package import SystemPackage

/// The allocated bytes of a cache, as du(1) counts them.
package struct AllocatedBytes {
  /// The bytes of the packs and their index.
  package let packs: Int64
  /// The bytes of all files, including the control file.
  package let all: Int64

  package init(below directory: FilePath) throws {
    var (packs, all): (Int64, Int64) = (0, try Self.blocks(directory.string))
    guard let walk = FileManager.default.enumerator(atPath: directory.string) else {
      throw BenchmarkFailure("cannot walk \(directory)")
    }
    for case let name as String in walk {
      // A concurrent collection may have unlinked the file.
      guard let bytes = try? Self.blocks(directory.appending(name).string) else { continue }
      all += bytes
      if name.hasPrefix(".packs") { packs += bytes }
    }
    self.packs = packs
    self.all = all
  }

  private static func blocks(_ path: String) throws -> Int64 {
    var status = stat()
    try BenchmarkFailure.check(lstat(path, &status), path)
    // The unit is always 512 bytes, independent of the file system's block size.
    return Int64(status.st_blocks) * 512
  }
}
