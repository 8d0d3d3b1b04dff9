import BlobRecord
import BlobStore
import Foundation
import Posix
import Synchronization
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, C25: records with update times ahead of the clock.
@Suite struct StampedAheadTests {
  let cache: Cache
  let start: Int64

  init() throws {
    cache = try Cache()
    start = cache.now
  }

  private static let year: Int64 = 365 * 86_400

  /// Stores a record while the clock is ahead, and corrects the clock.
  private func store(
    _ key: BlobKey, ahead seconds: Int64 = year, ttl: Duration? = nil, locks: BlobStore.LockPolicy = .none
  ) throws {
    cache.clock.now = UnixTime(seconds: start + seconds)
    defer { cache.clock.now = UnixTime(seconds: start) }
    try cache.store().store(payload(36), for: key, ttl: ttl, locks: locks)
  }

  private func updateTime(_ key: BlobKey) throws -> Int64? {
    try cache.store().header(for: key).map { Int64(clamping: $0.updateTime) }
  }

  @Test(arguments: [nil, .seconds(600)] as [Duration?]) func theyExpireAsIfStoredNow(ttl: Duration?) throws {
    try store("key", ttl: ttl)
    let store = try cache.store()
    let report = try store.collect()
    #expect(report.stampedAhead == 1 && report.expired == 0 && report.recordsAfter == 1 && report.failed == 0)
    #expect(try updateTime("key") == start)
    cache.clock.advance(by: 600)
    #expect(try store.collect().expired == 0)
    #expect(try store.contains("key"))
    cache.clock.advance(by: 1)
    #expect(try store.collect().expired == 1)
  }

  /// A time one day ahead is accepted; a second more is corrected. The rest of the header is unchanged.
  @Test(arguments: [.one, .none] as [BlobStore.LockPolicy]) func theToleranceIsADay(locks: BlobStore.LockPolicy) throws
  {
    try store("right", ahead: 86_400, locks: locks)
    try store("wrong", ahead: 86_401, ttl: .seconds(7), locks: locks)
    var expected = try cache.header("wr/wrong")
    #expect(try cache.store().collect().stampedAhead == 1)
    #expect(try updateTime("right") == start + 86_400)
    expected.updateTime = UInt64(start)
    #expect(try cache.header("wr/wrong") == expected)
    #expect(try cache.store().collect().stampedAhead == 0)
  }

  /// Another process, whose clock is slightly behind, may replace the record before each lock of the pass.
  @Test(arguments: 1...6) func anotherMayHaveReplacedItMeanwhile(lock number: Int) throws {
    try store("key")
    let start = start
    let other = try cache.store {
      $0.access.lockTimeout = .zero
      $0.now = { UnixTime(seconds: start - 100) }
    }
    let trace = CallTrace()
    let locks = Atomic(0)
    let stores = Atomic(0)
    trace.onCall { call, _ in
      // While the pass holds the stripe, the store is busy.
      if [.lockByte, .takeStripe].contains(call), locks.add(1, ordering: .relaxed).newValue == number,
        (try? other.store(payload(7), for: "key")) != nil
      {
        stores.add(1, ordering: .relaxed)
      }
      return nil
    }
    #expect(try cache.store(files: trace.files).collect().failed == 0)
    trace.onCall(nil)
    #expect(try updateTime("key") == (stores.load(ordering: .relaxed) == 0 ? start : start - 100))
  }

  @Test func theLargestTimeThereIsIsAhead() throws {
    try store("key", ahead: 0)
    try cache.changeHeader("ke/key") { $0.updateTime = .max }
    #expect(try cache.store().collect().stampedAhead == 1)
    #expect(try updateTime("key") == start)
  }

  /// A correction does not remove records early, and does not keep expired ones.
  @Test func othersAreAsTheyWere() throws {
    try store("old", ahead: -601)
    try store("live", ahead: -600)
    try store("ahead")
    let report = try cache.store().collect()
    #expect(report.examined == 3 && report.expired == 1 && report.stampedAhead == 1)
    #expect(try updateTime("live") == start - 600)
  }

  /// A pass whose clock may differ from the clock of others corrects nothing, nor does a dry run.
  @Test(arguments: [true, false]) func somePassesOnlyReport(dryRun: Bool) throws {
    try store("key")
    let report = try cache.store { $0.access.recordsCollections = dryRun }.collect(
      BlobStore.CollectionOptions(dryRun: dryRun))
    #expect(report.stampedAhead == 1)
    #expect(try updateTime("key") == start + Self.year)
  }

  /// Corrected records are the oldest, and are evicted first. Without the correction, they would be evicted last.
  @Test(arguments: EvictionTests.remembered) func theyAreEvictedInTurn(remembered: Int) throws {
    for index in 0..<10 { try store("ahead \(index)", ttl: .seconds(1_000_000)) }
    try cache.store().collect()
    cache.clock.advance(by: 1)
    for index in 0..<10 { try cache.store().store(payload(36), for: "late \(index)", ttl: .seconds(1_000_000)) }
    var options = BlobStore.CollectionOptions()
    options.rememberedRecords = remembered
    #expect(try cache.store { $0.limits.size = 1111 }.collect(options).evicted == 11)
    let left = Set(try cache.store().records().compactMap { $0.key?.string })
    #expect(left.count == 9 && left.allSatisfy { $0.hasPrefix("late") })
  }

  /// Uncorrected records count as used now, so they are evicted before records that are an hour ahead.
  @Test(arguments: EvictionTests.remembered, BlobStore.Eviction.allCases)
  func thoseThatAreOnlyReportedAreEvictedInTurn(remembered: Int, eviction: BlobStore.Eviction) throws {
    for index in 0..<10 {
      try store("ahead \(index)", ttl: .seconds(1_000_000))
      try store("late \(index)", ahead: 3600, ttl: .seconds(1_000_000))
    }
    var options = BlobStore.CollectionOptions()
    options.rememberedRecords = remembered
    let store = try cache.store {
      $0.limits.size = 1111
      $0.access.recordsCollections = false
      $0.limits.eviction = eviction
    }
    #expect(try store.collect(options).evicted == 11)
    let left = Set(try cache.store().records().compactMap { $0.key?.string })
    #expect(left.count == 9 && left.allSatisfy { $0.hasPrefix("late") })
  }

  /// A pass keeps the limit, whether it corrects the times or only counts the records as if it did.
  @Test(arguments: EvictionTests.remembered, [true, false])
  func thePassThatMeetsThemKeepsTheLimit(remembered: Int, stamps: Bool) throws {
    for index in 0..<20 { try store("ahead \(index)", ttl: .seconds(1_000_000)) }
    var options = BlobStore.CollectionOptions()
    options.rememberedRecords = remembered
    let store = try cache.store {
      $0.limits.size = 1000
      $0.access.recordsCollections = stamps
    }
    let report = try store.collect(options)
    #expect(report.stampedAhead == 20 && report.evicted == 11 && report.recordsAfter == 9 && report.bytesAfter == 900)
    #expect(Array(try cache.store().records()).count == 9)
  }

  /// Changing the header of a record with a second hard link requires a copy (K8), which a collection does not make.
  @Test func whatHasAnotherNameStays() throws {
    try store("key")
    try FileManager.default.linkItem(atPath: cache.path("ke/key"), toPath: cache.outside.path.string + "/backup")
    let before = try cache.bytes("ke/key")
    #expect(try cache.store().collect().stampedAhead == 1)
    #expect(try cache.bytes("ke/key") == before)
    try FileManager.default.removeItem(atPath: cache.outside.path.string + "/backup")
    #expect(try cache.store().collect().stampedAhead == 1)
    #expect(try updateTime("key") == start)
  }

  /// These records count as stored now, and are evicted in that order.
  @Test(arguments: EvictionTests.remembered) func whatHasAnotherNameIsEvictedInTurn(remembered: Int) throws {
    for index in 0..<10 {
      try store("ahead \(index)", ttl: .seconds(1_000_000))
      let path = cache.path("ah/ahead \(index)")
      try FileManager.default.linkItem(atPath: path, toPath: cache.outside.path.string + "/backup \(index)")
    }
    var options = BlobStore.CollectionOptions()
    options.rememberedRecords = remembered
    let report = try cache.store { $0.limits.size = 500 }.collect(options)
    #expect(report.stampedAhead == 10 && report.evicted == 6 && report.bytesAfter == 400)
    #expect(Array(try cache.store().records()).count == 4)
  }

  /// A pass does not wait for a record in use: the next pass corrects it.
  @Test func whatIsBeingChangedStaysUntilTheNextPass() throws {
    try store("key")
    let store = try cache.store()
    let report = try store.withExclusiveAccess(to: "key") { _ in try store.collect() }
    #expect(report.stampedAhead == 1 && report.failed == 0 && report.recordsAfter == 1)
    #expect(try updateTime("key") == start + Self.year)
    #expect(try store.collect().stampedAhead == 1)
    #expect(try updateTime("key") == start)
  }

  /// C10: a record stored after the walk has visited it is already correct.
  @Test func eachIsJudgedAgain() throws {
    try store("key")
    let trace = CallTrace()
    let collector = try cache.store(files: trace.files)
    let other = try cache.store()
    let opened = CallCount()
    trace.onCall { call, path in
      // The walk opens the record once to skim it, once to examine it, and the third time to write to it.
      guard [.openBeneath, .open].contains(call), path.lastComponent == "key" else { return nil }
      opened.add(1)
      if opened.value == 2 { _ = try? other.touch("key") }
      return nil
    }
    #expect(try collector.collect().recordsAfter == 1)
    #expect(try updateTime("key") == start)
    #expect(trace.count(.write) == 0)
  }

  @Test func whatCannotBeWrittenIsCounted() throws {
    try store("key")
    let trace = CallTrace()
    trace.onCall { call, path in
      call == .write && path.lastComponent == "key" ? .fail(.ioError) : nil
    }
    let report = try cache.store(files: trace.files).collect()
    #expect(report.stampedAhead == 1 && report.failed == 1 && report.recordsAfter == 1)
    #expect(try updateTime("key") == start + Self.year)
  }

  /// V1, V2: the memory tier uses the known time until it reads the record again.
  @Test func memoryReadsThemAgain() throws {
    try store("key")
    let store = try cache.store()
    let before = try #require(try store.generation(of: "key"))
    try store.collect()
    let after = try #require(try store.generation(of: "key"))
    #expect(after != before && after % 2 == 0)
    try store.collect()
    #expect(try store.generation(of: "key") == after)
  }

  @Test func enumerationsTellThem() throws {
    try store("ahead")
    try store("locked", locks: .one)
    try store("right", ahead: 86_400)
    let store = try cache.store()
    let ahead = try store.records().filter(\.isStampedAhead).compactMap { $0.key?.string }
    #expect(ahead.sorted() == ["ahead", "locked"])
    let report = try store.verify()
    #expect(report.stampedAhead == 2 && report.soundRecords == 3)
    try store.collect()
    #expect(try store.verify().stampedAhead == 0)
  }
}
