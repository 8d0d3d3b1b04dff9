import Foundation
import TestSupport

/// The system may write back each file that processes share by itself, and at any time.
enum WriteBack {
  /// Writes one of them back, or none.
  static func byChance(in cache: String, using generator: inout SeededGenerator) throws {
    guard let name = [".blobcache", ".packs/index", ".packs/p-0", nil, nil, nil].randomElement(using: &generator),
      let name, let file = FileHandle(forUpdatingAtPath: cache + "/" + name)
    else { return }
    try file.synchronize()
    try file.close()
  }
}
