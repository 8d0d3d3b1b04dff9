import BlobRecord
import BlobStore
import Foundation
import Locks
import Synchronization
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, C: the statistics and progress that collections report.
@Suite struct CollectionStatisticsTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// C17.
  @Test func collectionsAreAddedUpOverStores() throws {
    for round in 1...3 as ClosedRange<Int64> {
      let store = try cache.store { $0.limits.size = 300 }
      try cache.store().store(payload(36), for: "expired", ttl: .seconds(1))
      for key in 0..<4 { try cache.store().store(payload(36), for: "\(key) key", ttl: .seconds(1_000_000)) }
      try cache.write([1, 2], to: "te/.tmp-1")
      cache.clock.advance(by: 2)
      try store.collect()
      let statistics = try store.statistics()
      #expect(statistics.passes == round)
      #expect(statistics.expired == round)
      #expect(statistics.evicted == 2 * round)
      #expect(statistics.temporary == round)
      #expect(statistics.bytesFreed == round * 302)
      #expect(statistics.seconds >= 0)
      #expect(statistics.lastPass?.time == cache.clock.now)
      #expect(statistics.lastPass?.process == ProcessInfo.processInfo.processIdentifier)
    }
  }

  /// C17.
  @Test func dryRunsAndForeignClocksAreNotRecorded() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key", ttl: .seconds(1))
    cache.clock.advance(by: 2)
    try store.collect(BlobStore.CollectionOptions(dryRun: true))
    try cache.store { $0.access.recordsCollections = false }.collect()
    #expect(try store.statistics() == BlobStore.CollectionStatistics())
    #expect(try cache.files() == [])
  }

  /// C17: a collection in the future, after the clock was set back, does not count as the last one.
  @Test func aCollectionOfTheFutureIsNone() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    try store.collect()
    #expect(try store.statistics().lastPass != nil)
    cache.clock.advance(by: -1)
    #expect(try store.statistics().lastPass == nil)
    #expect(try store.statistics().passes == 1)
  }

  /// C17: any value of the statistics in the control file is harmless when it is read or incremented.
  @Test(arguments: [Int64.min, -1, .max]) func rubbishIsHarmless(word: Int64) throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key", ttl: .seconds(1))
    let file = try FileHandle(forUpdating: URL(filePath: cache.path(".blobcache")))
    try file.seek(toOffset: UInt64(ControlLayout.passesOffset))
    for _ in ControlLayout.passesOffset / 8...ControlLayout.nextNameOffset / 8 {
      try file.write(contentsOf: withUnsafeBytes(of: word) { Data($0) })
    }
    try file.close()
    #expect(try store.statistics().lastPass == nil)
    cache.clock.advance(by: 2)
    #expect(try store.collect(BlobStore.CollectionOptions(maximumTime: .seconds(100))).expired == 1)
    let statistics = try store.statistics()
    #expect(statistics.passes == (word > 0 ? 1 << 57 : 1))
    #expect(statistics.expired == (word > 0 ? 1 << 57 : 1))
    #expect(statistics.lastPass?.time == cache.clock.now)
  }

  @Test func aDirectoryThatIsNoneHasNoStatistics() throws {
    #expect(try cache.store().statistics() == BlobStore.CollectionStatistics())
  }

  /// C18.
  @Test func progressIsReportedAndCountsEveryFile() throws {
    let store = try cache.store()
    let count = Int64(BlobStore.CollectionOptions.progressStep) + 10
    for key in 0..<count { try store.store(Data(), for: "\(key % 10) \(key)", ttl: .seconds(key < 5 ? 1 : 100)) }
    try store.collect()
    cache.clock.advance(by: 2)
    let calls = Lock<[BlobStore.CollectionProgress]>([])
    var options = BlobStore.CollectionOptions()
    options.looksAtEverything = true
    options.progress = { call in calls.withLock { $0.append(call) } }
    try store.collect(options)
    let seen = calls.withLock { $0 }
    #expect(seen.count == 2)
    #expect(seen.first?.examined == Int64(BlobStore.CollectionOptions.progressStep))
    #expect(
      seen.last == BlobStore.CollectionProgress(phase: .expiry, examined: count, expected: count, bytesFreed: 5 * 64))
  }

  /// C19.
  @Test func aCollectionThatIsStoppedEndsWithTheFileInHand() throws {
    let store = try cache.store { $0.limits.size = 100 }
    let other = try cache.store()
    for key in 0..<20 { try other.store(payload(36), for: "ke\(key)", ttl: .seconds(key < 10 ? 1 : 100)) }
    cache.clock.advance(by: 2)
    let asked = Atomic(0)
    let isStopped: @Sendable () -> Bool = { asked.add(1, ordering: .relaxed).newValue > 3 }
    var options = BlobStore.CollectionOptions()
    options.isStopped = isStopped
    let report = try store.collect(options)
    #expect(report.wasStopped && report.wasCutShort)
    #expect(report.examined < 5)
    #expect(report.evicted == 0)
    #expect(try store.usage().records == 20 - report.expired)
  }

  /// C19.
  @Test func aCancelledTaskEndsItsCollection() async throws {
    let cache = cache
    let store = try cache.store()
    try store.store(payload(5), for: "key", ttl: .seconds(1))
    let report = try await Task {
      withUnsafeCurrentTask { $0?.cancel() }
      return try store.collect()
    }.value
    #expect(report.wasStopped)
    #expect(try store.collect().wasStopped == false)
  }

  /// C11.
  @Test func theOneWhoIsAtItIsNamedAndWaitedFor() throws {
    let cache = cache
    let first = try cache.store()
    let second = try cache.store()
    try first.store(payload(5), for: "key")
    let process = ProcessInfo.processInfo.processIdentifier
    let isWaitedFor = Atomic(false)
    var options = BlobStore.CollectionOptions()
    options.isStopped = {
      guard !isWaitedFor.exchange(true, ordering: .relaxed) else { return false }
      let error = expect(.collectionRunning) { try second.collect() }
      #expect(error?.runningProcess == process)
      #expect(error?.message.contains("\(process)") == true)
      var patient = BlobStore.CollectionOptions()
      patient.waitsForOther = .milliseconds(1)
      expect(.collectionRunning) { try second.collect(patient) }
      return false
    }
    #expect(try first.collect(options).examined == 1)
    var patient = BlobStore.CollectionOptions()
    patient.waitsForOther = .seconds(Int64.max)
    #expect(try second.collect(patient).examined == 1)
  }
}
