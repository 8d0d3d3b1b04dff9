import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, C: size.
@Suite struct EvictionTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// Stores records of 100 bytes, `spacing` seconds apart, in ascending order.
  private func fill(_ count: Int, spacing: Int64, locked: (Int) -> Bool = { _ in false }) throws {
    let store = try cache.store()
    for index in 0..<count {
      try store.store(payload(36), for: name(index), ttl: .seconds(1_000_000), locks: locked(index) ? .one : .none)
      cache.clock.advance(by: spacing)
    }
  }

  private func name(_ index: Int) -> BlobKey { BlobKey("\(index % 7)\(index % 3) record \(index)") }

  private func left() throws -> Set<String> {
    Set(try cache.store().records().compactMap { $0.key?.string })
  }

  private func names(_ indices: some Sequence<Int>) -> Set<String> { Set(indices.map { name($0).string }) }

  /// The number of remembered records: all, a few, or none, which requires another walk.
  static let remembered = [1 << 17, 16, 4, 0]

  /// C6, C7: the limit in bytes, and the remaining records of 20.
  @Test(
    arguments: [
      (1_000_000, 20), (2000, 20), (1999, 17), (1900, 17), (1000, 9), (1010, 9), (1111, 9), (1112, 10), (100, 0),
      (112, 1), (1, 0),
    ] as [(Int64, Int)], remembered)
  func oldestGoUntilNineTenthsOfTheLimitAreLeft(limit: (bytes: Int64, left: Int), remembered: Int) throws {
    try fill(20, spacing: 1)
    let expected = limit.left
    var options = BlobStore.CollectionOptions()
    options.rememberedRecords = remembered
    let report = try cache.store { $0.limits.size = limit.bytes }.collect(options)
    #expect(report.evicted == Int64(20 - expected))
    #expect(report.bytesAfter == Int64(100 * expected))
    #expect(report.bytesFreed == Int64(100 * (20 - expected)))
    #expect(try left() == names((20 - expected)..<20))
  }

  /// C16: the limit in records, the limit in bytes, and the remaining records of 20.
  @Test(
    arguments: [(20, nil, 20), (19, nil, 17), (10, nil, 9), (1, nil, 0), (10, 2000, 9), (10, 500, 4), (19, 1999, 17)]
      as [(Int64, Int64?, Int)])
  func oldestGoUntilNineTenthsOfTheCountAreLeft(count: Int64, bytes: Int64?, expected: Int) throws {
    try fill(20, spacing: 1)
    let report = try cache.store {
      $0.limits.count = count
      $0.limits.size = bytes
    }.collect()
    #expect(report.evicted == Int64(20 - expected))
    #expect(report.recordsAfter == Int64(expected))
    #expect(try left() == names((20 - expected)..<20))
  }

  /// C7: the target and the remaining records of 20.
  @Test(arguments: [(1.0, 10), (0.5, 5), (0.999, 9), (0.001, 0)]) func theTargetIsAChoice(
    target: Double, expected: Int
  ) throws {
    try fill(20, spacing: 1)
    let store = try cache.store {
      $0.limits.size = 1000
      $0.limits.evictionTarget = target
    }
    try store.collect()
    #expect(try left() == names((20 - expected)..<20))
  }

  /// C6.
  @Test func withoutALimitNothingIsEvicted() throws {
    try fill(20, spacing: 1)
    #expect(try cache.store { $0.limits.freeSpaceFloor = .max }.collect().evicted == 0)
  }

  /// C7: unlike this library, SPTPersistentCache orders by fractions of a second.
  @Test(arguments: remembered) func nothingOlderSurvivesTheSecondOfTheBoundary(remembered: Int) throws {
    try fill(10, spacing: 0)
    cache.clock.advance(by: 1)
    let store = try cache.store()
    for index in 10..<20 { try store.store(payload(36), for: name(index), ttl: .seconds(1_000_000)) }
    var options = BlobStore.CollectionOptions()
    options.rememberedRecords = remembered
    #expect(try cache.store { $0.limits.size = 550 }.collect(options).evicted == 16)
    let kept = try left()
    #expect(kept.count == 4)
    #expect(kept.isSubset(of: names(10..<20)))
  }

  /// C7: large records in the second of the boundary do not protect smaller, older ones.
  @Test func oldestFirstWhateverTheSizes() throws {
    try fill(9, spacing: 0)
    cache.clock.advance(by: 1)
    let store = try cache.store()
    for index in 10..<13 { try store.store(payload(436), for: name(index), ttl: .seconds(1_000_000)) }
    // 1000 of 2400 bytes must be freed, which takes the nine old records and one young record.
    let report = try cache.store { $0.limits.size = 1556 }.collect()
    #expect(report.evicted == 10)
    #expect(report.bytesAfter == 1000)
    #expect(try left().isSubset(of: names(10..<13)))
  }

  /// C7.
  @Test func manyRecordsOfOneSecondGoInNoOrderButOnlyAsManyAsItTakes() throws {
    try fill(300, spacing: 0)
    let report = try cache.store { $0.limits.size = 10_000 }.collect()
    #expect(report.evicted == 210)
    #expect(report.bytesAfter == 9000)
  }

  /// C7.
  @Test func lockedRecordsCountAndStay() throws {
    try fill(20, spacing: 1) { $0 < 10 }
    let report = try cache.store { $0.limits.size = 1200 }.collect()
    #expect(report.evicted == 10)
    #expect(report.bytesAfter == 1000)
    #expect(try left() == names(0..<10))
    let rest = try cache.store { $0.limits.size = 500 }.collect()
    #expect(rest.evicted == 0 && rest.bytesAfter == 1000)
  }

  /// C7, C31: records from 1970, from the end of the time range, and from now.
  @Test(arguments: BlobStore.Eviction.allCases) func wideSpreadOfTimes(eviction: BlobStore.Eviction) throws {
    try fill(30, spacing: 1)
    for (file, time) in [("a", 0), ("b", UInt64(Int64.max)), ("c", .max), ("d", 1), ("e", UInt64(Int64.max) - 8191)] {
      let header = RecordHeader(ttl: UInt64(Int64.max), updateTime: time, payloadSize: 0)
      try cache.write(record(header, [UInt8](repeating: 7, count: 36)), to: file)
    }
    // 18 of 35 records remain: the two oldest and fifteen current ones, or three ahead and twelve more, are evicted.
    let report = try cache.store {
      $0.limits.size = 2000
      $0.limits.eviction = eviction
    }.collect()
    #expect(report.evicted == 17)
    let expected = eviction == .oldest ? names(15..<30).union(["b", "c", "e"]) : names(12..<30)
    #expect(try left() == expected)
  }

  /// C7: all times are at the end of a header's range.
  @Test func timesAtTheEndOfTheRange() throws {
    // The clock has advanced this far, so these records are not ahead of it (C25).
    cache.clock.now = UnixTime(seconds: .max)
    let store = try cache.store { $0.limits.size = 500 }
    for index in 0..<10 {
      let header = RecordHeader(
        ttl: UInt64(Int64.max), updateTime: UInt64(Int64.max) - UInt64(index * 1000), payloadSize: 0)
      try cache.write(record(header, [UInt8](repeating: 7, count: 36)), to: "\(index)")
    }
    #expect(try store.collect().evicted == 6)
    #expect(try left() == ["0", "1", "2", "3"])
  }

  /// C6: a floor for the free space that the volume can never reach.
  @Test func freeSpaceFloorEvictsAllThatIsUnlocked() throws {
    try fill(20, spacing: 1) { $0 == 3 }
    let store = try cache.store {
      $0.limits.size = 1_000_000
      $0.limits.freeSpaceFloor = .max
    }
    #expect(try store.collect().evicted == 19)
    #expect(try left() == names([3]))
  }

  /// C6: damaged and quarantined files count.
  @Test func damagedAndQuarantinedBytesCount() throws {
    try fill(10, spacing: 1)
    try cache.write([UInt8](repeating: 7, count: 500), to: "da/damaged")
    try cache.write([UInt8](repeating: 7, count: 10), to: ".quarantine/q")
    let report = try cache.store { $0.limits.size = 1500 }.collect()
    // Of 1510 bytes, 1350 may remain.
    #expect(report.evicted == 2)
    #expect(report.bytesAfter == 1310)
    #expect(try cache.exists("da/damaged"))
    #expect(try cache.exists(".quarantine/q"))
  }

  /// C8: a size pass follows an expiry pass that examined one file. Expired records are evicted first, as the oldest.
  @Test func sizePassRunsOverAllAfterAnExpiryPassCutShort() throws {
    try fill(20, spacing: 1)
    try cache.write([UInt8](repeating: 7, count: 10), to: ".quarantine/q")
    cache.clock.advance(by: 2_000_000)
    let store = try cache.store()
    for index in 20..<25 { try store.store(payload(36), for: name(index)) }
    let report = try cache.store { $0.limits.size = 1000 }.collect(BlobStore.CollectionOptions(maximumTime: .zero))
    #expect(report.wasCutShort)
    #expect(report.expired + report.evicted == 17)
    #expect(report.bytesAfter == 810)
    #expect(try left().isSuperset(of: names(20..<25)))
    #expect(try left().count == 8)
  }

  /// C7, C10: a record that is locked after it was measured is not evicted.
  @Test func recordLockedDuringTheCollectionStays() throws {
    let trace = CallTrace()
    let cache = cache
    try fill(3, spacing: 1)
    let other = try cache.store()
    let locked = name(0)
    let store = try cache.store(files: trace.files) { $0.limits.size = 100 }
    trace.onCall { call, _ in
      // This is between the two passes.
      guard call == .volumeStatus else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) { try other.lock(locked) }
      return nil
    }
    #expect(try store.collect().evicted == 2)
    #expect(try left() == [locked.string])
  }
}
