import BlobStore
import CRawFiles
import Foundation
import Measuring
import SystemPackage
import Workbench

/// Copies a large payload into the store and out of it, compared with `cp`.
struct Copies {
  private let directory: FilePath
  private let byteCount: Int64
  private let tool: String?
  private let rounds: Int
  private let store: BlobStore

  private var source: String { directory.appending("source").string }
  private var copy: String { directory.appending("copy").string }
  private var cache: FilePath { directory.appending("cache") }

  init(in directory: FilePath, byteCount: Int64, tool: String?, rounds: Int) throws {
    (self.directory, self.byteCount, self.tool, self.rounds) = (directory, byteCount, tool, rounds)
    var configuration = BlobStore.Configuration()
    // Measures records that have a file each; PackBenchmarks measures packed records.
    configuration.packing = .off
    configuration.durability = .none
    configuration.limits.payload = .max
    store = try BlobStore(directory: directory.appending("cache"), configuration: configuration)
    // The bytes are not zeros, because some file systems do not write zeros.
    var generator = SplitMix(seed: 1)
    let piece = Data((0..<1 << 20).map { _ in UInt8.random(in: 0...255, using: &generator) })
    let file = try FileDescriptor.open(FilePath(source), .writeOnly, options: [.create], permissions: .ownerReadWrite)
    try file.closeAfter {
      for _ in 0..<byteCount >> 20 { _ = try piece.withUnsafeBytes { try file.writeAll($0) } }
    }
  }

  /// A way to copy a payload, and the `cp` that it is compared with.
  private struct Way {
    let name: String
    let isOut: Bool
    /// The minimum throughput relative to `cp`, or 0 for a way that is only shown for comparison.
    var limit = 0.0
    let run: () throws -> Void
  }

  private func ways() -> [Way] {
    var ways = [
      Way(name: "cp, in", isOut: false) { try run("/bin/cp", [source, copy]) },
      Way(name: "cp, out", isOut: true) { try run("/bin/cp", [store.filePath(for: "kept").string, copy]) },
      Way(name: "raw calls, in", isOut: false) {
        try BenchmarkFailure.check(raw_copy(source, copy, 256 << 10, 64), "copying")
      },
      Way(name: "kernel, in", isOut: false) {
        try BenchmarkFailure.check(raw_kernel_copy(source, 0, copy, 64, false), "copying")
      },
      Way(name: "kernel and checksum, in", isOut: false) {
        try BenchmarkFailure.check(raw_kernel_copy(source, 0, copy, 64, true), "copying")
      },
      Way(name: "kernel and checksum, out", isOut: true) {
        try BenchmarkFailure.check(
          raw_kernel_copy(store.filePath(for: "kept").string, 64, copy, 0, true), "copying")
      },
      Way(name: "store(contentsOf:)", isOut: false, limit: 0.8) {
        try store.store(contentsOf: FilePath(source), for: "new", ttl: .seconds(1000))
      },
      Way(name: "writer", isOut: false, limit: 0.8) { try write() },
      Way(name: "reader", isOut: true, limit: 0.8) { try read() },
      Way(name: "export", isOut: true, limit: 0.8) { try store.export("kept", to: FilePath(copy)) },
    ]
    if let tool {
      ways.append(
        Way(name: "tool, store", isOut: false, limit: 0.8) {
          try run(tool, ["store", cache.string, "new", source, "--quiet"])
        })
      ways.append(
        Way(name: "tool, load", isOut: true, limit: 0.8) {
          try run(tool, ["load", cache.string, "kept", "--output", copy])
        })
    }
    return ways
  }

  func measured() throws -> [StreamResult] {
    try store.store(contentsOf: FilePath(source), for: "kept", ttl: .seconds(100_000))
    let ways = ways()
    let idle = peakMemory()
    var times = [[Double]](repeating: [], count: ways.count)
    for round in 0...rounds {
      for index in turns(of: ways.count, in: round) {
        try clear()
        let duration = try time { try ways[index].run() }
        // The first round reads the files into the page cache.
        if round > 0 { times[index].append(duration) }
      }
    }
    var results = ways.indices.dropFirst(2).map { index in
      let base = times[ways[index].isOut ? 1 : 0]
      return StreamResult(
        work: ways[index].name,
        figures: String(
          format: "%.2f GB/s, cp %.2f GB/s", speed(times[index]), speed(base)),
        value: Quartiles(of: zip(base, times[index]).map { $0 / $1 }).median, limit: ways[index].limit, isLeast: true)
    }
    let memory = Double(peakMemory() - idle) / 1024
    results.append(
      StreamResult(work: "memory over idle", figures: "MiB", value: memory, limit: 16, isLeast: false))
    return results
  }

  private func speed(_ times: [Double]) -> Double { Double(byteCount) / Quartiles(of: times).median / 1000 }

  /// Removes the previous way's output, and waits until writeback ends.
  private func clear() throws {
    if FileManager.default.fileExists(atPath: copy) { try FileManager.default.removeItem(atPath: copy) }
    try store.remove("new", purging: true)
    try synchronizeFileSystem(of: directory)
  }

  private func write() throws {
    let input = try FileDescriptor.open(FilePath(source), .readOnly)
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
    defer { buffer.deallocate() }
    try input.closeAfter {
      var writer = try store.openWriter(for: "new", ttl: .seconds(1000), expectedSize: byteCount)
      while case let count = try input.read(into: buffer), count > 0 {
        try writer.append(RawSpan(_unsafeBytes: UnsafeRawBufferPointer(rebasing: buffer[..<count])))
      }
      try writer.commit()
    }
  }

  private func read() throws {
    guard let reader = try store.openReader(for: "kept") else { throw BenchmarkFailure("the record is gone") }
    let file = try FileDescriptor.open(FilePath(copy), .writeOnly, options: [.create], permissions: .ownerReadWrite)
    try file.closeAfter {
      try reader.forEachPiece { piece in
        let count = try piece.withUnsafeBytes { try file.write($0) }
        try BenchmarkFailure.require(count == piece.byteCount, "a write was short")
      }
    }
  }

  private func run(_ program: String, _ arguments: [String]) throws {
    let process = Process()
    process.executableURL = URL(filePath: program)
    process.arguments = arguments
    try process.run()
    process.waitUntilExit()
    try BenchmarkFailure.require(process.terminationStatus == 0, "\(program) has failed")
  }

  /// Returns the peak memory of this process in KiB.
  private func peakMemory() -> Int {
    var usage = rusage()
    // RUSAGE_SELF is 0 on every platform, but its type differs.
    getrusage(0, &usage)
    #if canImport(Darwin)
      return usage.ru_maxrss / 1024
    #else
      return usage.ru_maxrss
    #endif
  }
}
