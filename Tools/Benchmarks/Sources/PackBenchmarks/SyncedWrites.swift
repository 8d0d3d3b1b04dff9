import CRawFiles
import Foundation
import SystemPackage
import Workbench

/// Sequential writes into a preallocated file, each with a sync: the system calls of a `full` store in a pack, in C.
final class SyncedWrites {
  private let file: Int32
  private let bytes: [UInt8]
  private var offset: UInt64 = 0

  init(_ path: FilePath, byteCount: Int) throws {
    bytes = [UInt8](repeating: 1, count: byteCount)
    file = open(path.string, O_RDWR | O_CREAT | O_TRUNC, 0o600)
    try BenchmarkFailure.check(file, "opening \(path)")
    let room = [UInt8](repeating: 0, count: 1 << 20)
    try BenchmarkFailure.check(raw_write_synced(file, room, room.count, 0), "writing \(path)")
  }

  deinit { close(file) }

  func write() throws {
    try BenchmarkFailure.check(raw_write_synced(file, bytes, bytes.count, offset), "writing")
    offset += UInt64(bytes.count)
  }
}
