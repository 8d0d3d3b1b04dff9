import BlobRecord
import BlobStore
import Foundation
import Measuring
import SystemPackage
import Workbench

/// Measures a cache of very many packed records: its disk space, its opening, also after a boot, and its collection.
struct LargeCache {
  private let plan: PackPlan
  private let directory, few, blocks: FilePath

  init(_ plan: PackPlan) {
    self.plan = plan
    directory = plan.directory.appending("large")
    few = plan.directory.appending("few")
    blocks = plan.directory.appending("blocks")
  }

  func measured() throws -> [PackFigure] {
    try PackPlan.fill(open(few), count: 10)
    // The smaller number is measured first, in the same directory.
    let first = plan.records / 10
    try PackPlan.fill(open(directory), count: first)
    var figures = try space("tenth", records: first)
    try PackPlan.fill(open(directory), from: first, count: plan.records - first)
    figures += try space("all", records: plan.records)
    figures += [
      try opening(),
      try afterBoot("openingAfterBoot", "opening and first load after a boot", of: directory), try pass(),
    ]
    return figures + (try openingsBesideACheckpoint())
  }

  /// Measures records that are large enough for a collection to write a checkpoint, which costs at most an eighth of
  /// the bytes stored since the last one.
  private func openingsBesideACheckpoint() throws -> [PackFigure] {
    let count = plan.records / 10
    let store = try open(blocks)
    try PackPlan.fill(store, count: count, PackPlan.payload(4096))
    let without = try afterBoot(
      "openingAfterBootOfBlocks", "the same, \(count) records of 4 KiB", of: blocks)
    _ = try store.collect()
    let isThere = FileManager.default.fileExists(atPath: blocks.appending(".packs").appending("checkpoint").string)
    try BenchmarkFailure.require(isThere || plan.isQuick, "the collection has made no checkpoint")
    return [
      without,
      try afterBoot("openingAfterBootByCheckpoint", "the same behind a collection, by its checkpoint", of: blocks),
    ]
  }

  private func open(_ directory: FilePath) throws -> BlobStore {
    try BlobStore(directory: directory, configuration: PackPlan.configuration())
  }

  private func space(_ name: String, records: Int) throws -> [PackFigure] {
    // Some file systems allocate blocks only during writeback.
    try synchronizeFileSystem(of: directory)
    let allocated = try AllocatedBytes(below: directory)
    let logical = Double(records * PackPlan.logicalByteCount)
    return [
      PackFigure(
        "space-\(name)", "bytes on disk per logical byte, \(records) records, of packs and index",
        [Double(allocated.packs) / logical]),
      PackFigure("spaceInAll-\(name)", "the same, with the control file", [Double(allocated.all) / logical]),
    ]
  }

  /// Opens the cache and loads one record.
  private func opening() throws -> PackFigure {
    var generator = SplitMix(seed: 3)
    var ratios: [Double] = []
    for round in 0...plan.rounds {
      var times = [0.0, 0.0]
      for index in turns(of: 2, in: round) {
        let (path, records) = index == 0 ? (few, 10) : (directory, plan.records)
        let key = PackPlan.key(Int.random(in: 0..<records, using: &generator))
        times[index] = try time { try openAndLoad(path, key) }
      }
      // The first round runs with colder caches.
      if round > 0 { ratios.append(times[1] / times[0]) }
    }
    return PackFigure("opening", "opening and first load, to a cache of 10 records", ratios)
  }

  private func openAndLoad(_ directory: FilePath, _ key: BlobKey) throws {
    let isThere = try open(directory).load(key) != nil
    try BenchmarkFailure.require(isThere, "\(key) is not there")
  }

  /// Simulates an opening after a boot. All files are in the page cache.
  private func afterBoot(_ name: String, _ text: String, of directory: FilePath) throws -> PackFigure {
    let times = try (0..<(plan.isQuick ? 1 : 3)).map { number in
      try forgetBoot(of: directory)
      return try time { try openAndLoad(directory, PackPlan.key(number)) } / 1e6
    }
    return PackFigure(name, text, times, "s")
  }

  /// Marks the index as last trusted under another boot: Spec/PackFormat.md, 6.
  private func forgetBoot(of directory: FilePath) throws {
    let index = directory.appending(".packs").appending("index")
    let file = try FileHandle(forUpdating: URL(fileURLWithPath: index.string))
    defer { try? file.close() }
    try file.seek(toOffset: 40)
    try file.write(contentsOf: Data((0..<16).map { _ in UInt8.random(in: 0 ... .max) }))
  }

  /// Measures a collection that removes nothing.
  private func pass() throws -> PackFigure {
    let store = try open(directory)
    // The first collection examines every record.
    _ = try store.collect()
    let times = try (0..<(plan.isQuick ? 1 : 7)).map { _ in
      try time {
        let report = try store.collect()
        try BenchmarkFailure.require(
          report.recordsAfter == plan.records && report.evicted == 0, "a collection has left \(report.recordsAfter)")
      } / 1e3
    }
    return PackFigure("pass", "a collection that finds nothing", times, "ms")
  }
}
