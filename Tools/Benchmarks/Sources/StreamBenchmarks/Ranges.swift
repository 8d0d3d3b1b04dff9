import BlobRecord
import BlobStore
import CRawFiles
import Foundation
import Measuring
import SystemPackage
import Workbench

/// Reads ranges of 64 KiB from a blob of 5 GiB.
struct Ranges {
  private static let rangeByteCount: Int64 = 64 << 10
  private static let byteCount: Int64 = 5 << 30
  /// The number of reads in one round of one way.
  private static let reads = 500

  private let store: BlobStore
  private let path: String
  private let rounds: Int

  init(in directory: FilePath, rounds: Int) throws {
    self.rounds = rounds
    var configuration = BlobStore.Configuration()
    // Measures records that have a file each; PackBenchmarks measures packed records.
    configuration.packing = .off
    configuration.limits.payload = .max
    store = try BlobStore(directory: directory.appending("cache"), configuration: configuration)
    try store.store(Data(), for: "large", ttl: .seconds(100_000))
    path = try store.filePath(for: "large").string
    // The payload is a hole, because the page cache treats its zeros like other bytes.
    let header = RecordHeader(
      ttl: 100_000, updateTime: UInt64(Date().timeIntervalSince1970), payloadSize: UInt64(Self.byteCount))
    let file = try FileDescriptor.open(FilePath(path), .writeOnly)
    try file.closeAfter {
      _ = try header.withEncodedBytes { span in try span.withUnsafeBytes { try file.writeAll(toAbsoluteOffset: 0, $0) }
      }
      try file.resize(to: 64 + Self.byteCount)
    }
  }

  /// Returns an offset anywhere in the blob, so that the ranges do not all fit into the processor's caches.
  private func start(_ number: Int) -> Int64 { Int64(number * 7919 % 4096) << 20 }

  func measured() throws -> [StreamResult] {
    guard let reader = try store.openReader(for: "large") else { throw BenchmarkFailure("the record is gone") }
    let file = open(path, O_RDONLY)
    try BenchmarkFailure.check(file, "opening \(path)")
    defer { _ = raw_close(file) }
    let count = Int(Self.rangeByteCount)
    let ways: [(Int) throws -> Bool] = [
      { raw_range(path, count, UInt64(64 + start($0))) == count },
      { try store.openReader(for: "large")?.read(start($0)..<start($0) + Self.rangeByteCount).count == count },
      { raw_pread(file, count, UInt64(64 + start($0))) == count },
      { try reader.read(start($0)..<start($0) + Self.rangeByteCount).count == count },
    ]
    var times = [[Double]](repeating: [], count: ways.count)
    for round in 0...rounds {
      for index in turns(of: ways.count, in: round) {
        let duration = try time {
          for number in 0..<Self.reads { try BenchmarkFailure.require(try ways[index](number), "reading \(path)") }
        }
        if round > 0 { times[index].append(duration / Double(Self.reads)) }
      }
    }
    func result(_ work: String, _ way: Int, _ limit: Double) -> StreamResult {
      StreamResult(
        work: work,
        figures: String(
          format: "%.2f us, raw %.2f us", Quartiles(of: times[way]).median, Quartiles(of: times[way - 1]).median),
        value: Quartiles(of: zip(times[way], times[way - 1]).map { $0 / $1 }).median, limit: limit, isLeast: false)
    }
    return [
      result("64 KiB of 5 GiB, opened for it", 1, 1.3), result("64 KiB of 5 GiB, from an open reader", 3, 1.15),
    ]
  }
}
