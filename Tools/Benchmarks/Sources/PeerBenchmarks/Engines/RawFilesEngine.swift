import CRawFiles
import Foundation
import SystemPackage
import Workbench

/// System calls in C only.
final class RawFilesEngine: Engine, Session {
  private let root: CInt

  init(directory: FilePath) throws {
    root = raw_open_root(directory.string)
    try BenchmarkFailure.check(root, "opening \(directory)")
  }

  deinit { _ = raw_close(root) }

  func session() -> any Session { self }

  func store(_ entry: Entry) throws {
    var key = entry.raw
    let result = entry.payload.record.withUnsafeBytes { record in
      raw_store(root, &key, 1, record.baseAddress!, record.count, false)
    }
    try BenchmarkFailure.check(result, "raw store")
  }

  /// The bytes are freed after the read and not returned; only a miss is reported.
  func load(_ entry: Entry) throws -> Data? {
    var key = entry.raw
    let found = raw_load(root, &key, 1, false)
    try BenchmarkFailure.check(found, "raw load")
    return found == 1 ? entry.payload.bytes : nil
  }

  func loadTouching(_ entry: Entry) throws -> Data? {
    let found = try load(entry)
    var key = entry.raw
    try BenchmarkFailure.check(raw_rewrite_headers(root, &key, 1), "raw touch")
    return found
  }

  func remove(_ entry: Entry) throws {
    var key = entry.raw
    try BenchmarkFailure.check(raw_remove(root, &key, 1), "raw remove")
  }
}
