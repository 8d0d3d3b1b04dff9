import BlobRecord
import Foundation
import Locks
import TestSupport
import Testing

@testable import BlobStore

/// A collection skips chunks without expired records after a collection has examined all records.
@Suite struct PackedPassTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  private func store(_ change: (inout BlobStore.Configuration) -> Void = { _ in }) throws -> BlobStore {
    try cache.store {
      $0.packing = .upTo(1000)
      $0.expiry.defaultTimeToLive = .seconds(10_000)
      change(&$0)
    }
  }

  /// Returns a store with a hundred packed records and three files, after a collection that has examined them.
  private func filled(ttl: Duration? = nil) throws -> BlobStore {
    let store = try store()
    for number in 0..<100 { try store.store(payload(number), for: BlobKey("small \(number)"), ttl: ttl) }
    for number in 0..<3 { try store.store(payload(2000), for: BlobKey("large \(number)"), ttl: ttl) }
    _ = try store.collect()
    return store
  }

  /// Collects, and counts the checks of `isStopped`, which occur at each visited record and a few times more.
  private func met(_ store: BlobStore) throws -> (records: Int, report: BlobStore.CollectionReport) {
    let asked = Lock(0)
    var options = BlobStore.CollectionOptions()
    options.isStopped = {
      asked.withLock { $0 += 1 }
      return false
    }
    let report = try store.collect(options)
    return (asked.withLock { $0 }, report)
  }

  @Test func whatNothingCanHaveExpiredInIsPassedOver() throws {
    let store = try filled()
    let usage = try store.usage()
    let (met, report) = try met(store)
    #expect(met < 50)
    #expect([report.examined, report.recordsAfter] == [103, 103])
    #expect(report.bytesAfter == usage.bytes - usage.recycledBytes)
    #expect([report.expired, report.evicted, report.failed] == [0, 0, 0] && !report.wasCutShort)
    var everything = BlobStore.CollectionOptions()
    everything.looksAtEverything = true
    let whole = try store.collect(everything)
    #expect([whole.examined, whole.recordsAfter, whole.bytesAfter] == [103, 103, report.bytesAfter])
    try store.checkInvariants()
  }

  @Test func afterADayEverythingIsLookedAt() throws {
    let store = try filled(ttl: .seconds(1_000_000))
    #expect(try met(store).records < 50)
    cache.clock.advance(by: 86_401)
    #expect(try met(store).records >= 100)
    #expect(try met(store).records < 50)
  }

  @Test(arguments: [nil, Duration.seconds(10)]) func whatHasExpiredIsNotPassedOver(ttl: Duration?) throws {
    let store = try filled(ttl: ttl)
    try store.store(payload(5), for: "later", ttl: .seconds(20_000))
    cache.clock.advance(by: ttl == nil ? 10_000 : 10)
    #expect(try store.collect().expired == 0)
    cache.clock.advance(by: 1)
    let report = try store.collect()
    #expect([report.expired, report.recordsAfter] == [103, 1])
    try store.checkInvariants()
  }

  /// Each record is stored or changed after the full collection, in a chunk without expired records.
  @Test func aRecordThatComesLaterOrChangesIsFoundInTime() throws {
    let store = try filled(ttl: .seconds(5000))
    try store.store(payload(5), for: "new", ttl: .seconds(10))
    try store.store(payload(6), for: "small 7", ttl: .seconds(10))
    try store.store(payload(7), for: "unlocked", ttl: .seconds(10), locks: .one)
    #expect(try store.collect().expired == 0)
    cache.clock.advance(by: 11)
    #expect(try store.collect().expired == 2)
    try store.unlock("unlocked")
    let report = try store.collect()
    #expect([report.expired, report.recordsAfter] == [1, 102])
    try store.checkInvariants()
  }

  @Test func anIndexThatIsMadeAnewLosesNoExpiry() throws {
    try { _ = try filled(ttl: .seconds(10)) }()
    try FileManager.default.removeItem(atPath: cache.path(".packs/index"))
    let store = try store()
    cache.clock.advance(by: 11)
    #expect(try store.collect().expired == 103)
  }

  /// The size pass must examine each record.
  @Test func aLimitIsKept() throws {
    let store = try filled()
    #expect(try met(store).records < 50)
    let limited = try self.store { $0.limits.count = 50 }
    let report = try limited.collect()
    #expect(report.recordsAfter == 45)
    #expect(try store.records().filter { _ in true }.count == 45)
    try store.checkInvariants()
  }
}
