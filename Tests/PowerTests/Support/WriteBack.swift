import Foundation
import TestSupport

/// The system may write back each file in shared memory separately at any time.
enum WriteBack {
  /// Writes back one of the files or none, at random.
  static func byChance(in cache: String, using generator: inout SeededGenerator) throws {
    guard let name = [".blobcache", ".packs/index", ".packs/p-0", nil, nil, nil].randomElement(using: &generator),
      let name, let file = FileHandle(forUpdatingAtPath: cache + "/" + name)
    else { return }
    try file.synchronize()
    try file.close()
  }
}
