import Foundation
import SystemPackage
import Workbench

/// The last sequence number of a packed record. Each write takes the next number, whether the record is stored or
/// moved.
enum PackSequence {
  /// The offset of the sequence in the control file: Spec/ControlFile.md.
  private static let offset: UInt64 = 520

  static func current(in directory: FilePath) throws -> Int {
    let path = directory.appending(".blobcache")
    let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path.string))
    defer { try? file.close() }
    try file.seek(toOffset: offset)
    guard let bytes = try file.read(upToCount: 8), bytes.count == 8 else {
      throw BenchmarkFailure("\(path) has no sequence of packed records")
    }
    return bytes.reversed().reduce(0) { $0 << 8 | Int($1) }
  }
}
