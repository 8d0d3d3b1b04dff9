import Foundation
import SystemPackage
import Workbench

/// The bytes of the blocks that a cache has, as du(1) counts them.
struct AllocatedBytes {
  /// Of the packs and their index.
  let packs: Int64
  /// Of everything, the control file among it.
  let all: Int64

  init(below directory: FilePath) throws {
    var (packs, all): (Int64, Int64) = (0, try Self.blocks(directory.string))
    guard let walk = FileManager.default.enumerator(atPath: directory.string) else {
      throw BenchmarkFailure("cannot walk \(directory)")
    }
    for case let name as String in walk {
      // A collection may unlink what the walk has met.
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
    // In units of 512, whatever the file system's own are.
    return Int64(status.st_blocks) * 512
  }
}
