import BlobRecord
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// Every number that a process reads from shared memory may be any number, and ends no process by an overflow.
@Suite struct ExtremeNumberTests {
  private let cache: Cache

  init() throws { cache = try Cache(inMemory: true) }

  enum MappedFile: String, CaseIterable {
    case control = ".blobcache"
    case uses = ".blobcache-uses"
    case pack = ".packs/p-0"
    case index = ".packs/index"

    /// The bytes whose words are always replaced, and those whose words are replaced if they are in use.
    var ranges: (always: [Range<Int>], inUse: Range<Int>) {
      switch self {
      case .control:
        let counters = ControlLayout.countersAreKnownOffset..<ControlLayout.growingIndexOffset + 8
        let traffic = ControlLayout.trafficOffset..<ControlLayout.trafficOffset + 64
        let pass = ControlLayout.passesNotedOffset + 64..<ControlLayout.passesNotedOffset + 128
        return ([counters, traffic, pass], ControlLayout.marksOffset..<ControlLayout.marksOffset + (256 << 10))
      case .uses: return ([16..<24, 128..<256], 4096..<8192)
      case .pack:
        let table = PackLayout.tableEntryOffset(ofChunk: 0)
        return ([8..<64, table..<table + 64], PackLayout.deadSectorsOffset..<PackLayout.deadSectorsOffset + 16384)
      case .index: return ([8..<80], IndexLayout.headerByteCount..<IndexLayout.headerByteCount + (1 << 20))
      }
    }
  }

  /// The most words of a range whose words are replaced if they are in use.
  private static let mostInUse = 8
  private static let keys = (0..<4).map { BlobKey("key \($0)") }

  private func store() throws -> BlobStore {
    try cache.store {
      $0.packing = .upTo(1000)
      // A small index, because each operation reads all of its entries.
      $0.leastPackIndexEntryCount = 100
      $0.limits.size = 20_000
      $0.limits.count = 30
      $0.access.lockTimeout = .zero
      $0.layout.arrangement = .spread
    }
  }

  /// Fills the directory so that each file has numbers in it, and a collection passes over subdirectories and chunks.
  private func fill() throws {
    let store = try store()
    for (number, key) in Self.keys.enumerated() {
      try store.store(payload(number.isMultiple(of: 2) ? 100 : 2000), for: key, ttl: .seconds(100_000))
      _ = try store.load(key)
    }
    try store.store(payload(100), for: "expired", ttl: .seconds(1))
    // A mark needs a subdirectory that has not changed for some time.
    for name in try cache.outside.names(in: "cache") where !name.hasPrefix(".") { try cache.setModified(name, 1) }
    cache.clock.advance(by: 10)
    try store.collect()
  }

  private func offsets(in file: MappedFile) throws -> [Int] {
    let (always, inUse) = file.ranges
    let handle = try FileHandle(forReadingFrom: URL(filePath: cache.path(file.rawValue)))
    defer { #expect(throws: Never.self) { try handle.close() } }
    try handle.seek(toOffset: UInt64(inUse.lowerBound))
    let bytes = try handle.read(upToCount: inUse.count) ?? Data()
    let used = stride(from: 0, to: bytes.count - 7, by: 8)
      .filter { offset in bytes[offset..<offset + 8].contains { $0 != 0 } }
    return always.flatMap { Array(stride(from: $0.lowerBound, to: $0.upperBound, by: 8)) }
      + used.prefix(Self.mostInUse).map { inUse.lowerBound + $0 }
  }

  private func set(_ value: Int64, at offset: Int, in file: MappedFile) throws {
    let handle = try FileHandle(forUpdating: URL(filePath: cache.path(file.rawValue)))
    defer { #expect(throws: Never.self) { try handle.close() } }
    try handle.seek(toOffset: UInt64(offset))
    try handle.write(contentsOf: withUnsafeBytes(of: value.littleEndian) { Data($0) })
  }

  private static let values: [Int64] = [.min, -1, .max]

  /// Replaces three distant words at a time. They are different ones for each value, because one of them may prevent that
  /// the others are read.
  @Test(arguments: MappedFile.allCases, values.indices) func noNumberEndsTheProcess(file: MappedFile, value: Int) throws
  {
    let bench = try ExtremeNumberTests()
    try bench.fill()
    let offsets = try bench.offsets(in: file)
    let distance = (offsets.count + 2) / 3 + value
    for first in 0..<distance {
      let bench = try ExtremeNumberTests()
      try bench.fill()
      for index in stride(from: first, to: offsets.count, by: distance) {
        try bench.set(Self.values[value], at: offsets[index], in: file)
      }
      bench.callEverything()
    }
  }

  /// Calls the operations, which may fail.
  private func callEverything() {
    let calls: [(BlobStore) throws -> Void] = [
      { _ = try $0.usageEstimate() }, { _ = try $0.packUsage() }, { _ = try $0.statistics() },
      { _ = try $0.recentPasses() }, { _ = try $0.traffic() },
      { store in for key in Self.keys { _ = try store.load(key) } },
      { _ = try $0.collect(BlobStore.CollectionOptions(dryRun: true)) }, { _ = try $0.collect() },
      { try $0.store(payload(100), for: "new") }, { try $0.store(payload(3000), for: "large") },
      { try $0.store(payload(50), for: Self.keys[0]) }, { _ = try $0.touch(Self.keys[1]) },
      { _ = try $0.lock(Self.keys[2]) }, { _ = try $0.unlock(Self.keys[2]) }, { _ = try $0.remove(Self.keys[3]) },
      { _ = try $0.usage() }, { _ = try $0.verify() }, { for _ in try $0.records() {} },
      { _ = try $0.trim(to: .byteCount(1500)) }, { _ = try $0.collect() }, { _ = try $0.unpackRecords() },
      { _ = try $0.removeAll(.unlocked) }, { try $0.clearTraffic() }, { _ = try $0.usageEstimate() },
    ]
    guard let store = try? store() else { return }
    for call in calls { try? call(store) }
  }
}
