import BlobRecord
import BlobStore
import Foundation
import TestSupport
import Testing

/// Walks over a directory with packed records and files visit both.
@Suite struct PackedWalkTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  private func store(_ change: (inout BlobStore.Configuration) -> Void = { _ in }) throws -> BlobStore {
    try cache.store {
      $0.packing = .upTo(1000)
      change(&$0)
    }
  }

  private static let smallCount = 200
  private static let largeCount = 3

  private func small(_ number: Int) -> BlobKey { BlobKey("small \(number)") }
  private func large(_ number: Int) -> BlobKey { BlobKey("large \(number)") }

  private var allKeys: Set<BlobKey> {
    Set((0..<Self.smallCount).map(small) + (0..<Self.largeCount).map(large))
  }

  /// Stores two hundred packed records and three files.
  @discardableResult
  private func fill(_ store: BlobStore, ttl: Duration? = nil) throws -> BlobStore {
    for number in 0..<Self.smallCount { try store.store(payload(number), for: small(number), ttl: ttl) }
    for number in 0..<Self.largeCount { try store.store(payload(2000), for: large(number), ttl: ttl) }
    return store
  }

  private var allBytes: Int64 {
    Int64((0..<Self.smallCount).reduce(0) { $0 + 64 + $1 } + Self.largeCount * 2064)
  }

  private func keys(_ entries: some Sequence<RecordEntry>) -> [BlobKey] { entries.compactMap(\.key) }

  /// Expects that the keys found are the expected ones, each exactly once.
  private func expectEachOnce(
    _ found: [BlobKey], _ expected: Set<BlobKey>, sourceLocation: SourceLocation = #_sourceLocation
  ) {
    #expect(Set(found) == expected, sourceLocation: sourceLocation)
    #expect(found.count == expected.count, sourceLocation: sourceLocation)
  }

  // MARK: - Listings

  @Test func anEnumerationMeetsBothKinds() throws {
    let store = try fill(store())
    expectEachOnce(keys(try store.records()), allKeys)
    // Another process opens the packs.
    expectEachOnce(keys(try cache.store().records()), allKeys)
  }

  @Test func anEntryTellsWhereARecordIsPacked() throws {
    let store = try store()
    try store.store(payload(100), for: "first", ttl: .seconds(50), locks: .one, extendedData: Data([1, 2, 3]))
    try store.store(payload(100), for: "second")
    try store.store(payload(2000), for: "large")
    let entries = Dictionary(uniqueKeysWithValues: try store.records().map { ($0.key, $0) })
    let first = try #require(entries["first"])
    #expect(first.file == ".packs/p-0")
    #expect(first.state == .locked)
    #expect(first.header == (try store.header(for: "first")))
    #expect(first.extendedData == Data([1, 2, 3]))
    #expect(first.expiry == cache.clock.now.advanced(bySeconds: 50))
    #expect(first.modified == cache.clock.now)
    #expect(first.damage == nil)
    let (place, second) = (try #require(first.packed), try #require(entries["second"]?.packed))
    #expect(second.sequence == place.sequence + 1)
    #expect(place.pack == 0 && place.offset == 0 && second.offset == 0 && place.chunk != second.chunk)
    // The size is that of an equivalent file: header, payload, and extension.
    #expect(first.fileSize == 64 + 100 + 3 + 16)
    #expect(entries["large"]?.packed == nil)
    #expect(entries["large"]?.file == "la/large")
  }

  /// A load of a record without time to live is recorded only in the index.
  @Test func theTimeOfUseIsTheIndexs() throws {
    let store = try store()
    try store.store(payload(10), for: "key")
    cache.clock.advance(by: 500)
    _ = try store.load("key")
    let entry = try #require(try store.records().first { _ in true })
    #expect(entry.header?.lastUpdate == cache.clock.now)
    cache.clock.advance(by: 500)
    #expect(try store.collect().expired == 0)
    #expect(try store.load("key") != nil)
  }

  @Test func aPrefixSelects() throws {
    let store = try fill(store())
    expectEachOnce(keys(try store.records(prefix: "large")), Set((0..<Self.largeCount).map(large)))
    expectEachOnce(keys(try store.records(prefix: "small 19")), Set(([19] + Array(190..<200)).map(small)))
    #expect(keys(try store.records(prefix: "x")).isEmpty)
    #expect(try store.load(prefix: "small 7") { $0.min(by: BlobKey.precedes) }?.key == small(7))
  }

  @Test(arguments: [RecordNaming.encoded, .sha256])
  func namesOfAllKindsAreMet(naming: RecordNaming) throws {
    let store = try store { $0.layout.naming = naming }
    let expected: Set<BlobKey> = [
      "a", "é", "a/b", ".hidden", "%2F", BlobKey(String(repeating: "/", count: 300)), "x y",
    ]
    for key in expected { try store.store(payload(5), for: key) }
    expectEachOnce(keys(try store.records()), expected)
    #expect(try cache.files() == Cache.filesOfPacks)
  }

  @Test(arguments: [1, 7, 1000])
  func pagesMeetEachRecordOnce(limit: Int) throws {
    let store = try fill(store())
    var found: [BlobKey] = []
    var position: WalkPosition? = .start
    while let start = position {
      let page = try store.page(from: start, limit: limit) { _ in true }
      #expect(page.entries.count <= limit + Self.largeCount)
      found += keys(page.entries)
      // A reader continues from the text of a position.
      position = page.next.flatMap { WalkPosition($0.text) }
    }
    expectEachOnce(found, allKeys)
  }

  // MARK: - Usage and counters

  @Test func usageTellsWhatIsPacked() throws {
    let store = try fill(store())
    try store.lock(small(7))
    try store.store(payload(10), for: "over", ttl: .seconds(1))
    cache.clock.advance(by: 2)
    let usage = try store.usage()
    #expect(usage.records == Int64(Self.smallCount + Self.largeCount) + 1)
    #expect(usage.bytes == allBytes + 74)
    #expect(usage.packedRecords == Int64(Self.smallCount) + 1)
    #expect(usage.packedBytes == allBytes + 74 - Int64(Self.largeCount * 2064))
    #expect([usage.lockedRecords, usage.lockedBytes] == [1, 71])
    #expect([usage.expiredRecords, usage.expiredBytes] == [1, 74])
    #expect(usage.foreignFiles == 0 && usage.damagedFiles == 0)
  }

  @Test func aCollectionMakesTheCountersRight() throws {
    try fill(store()).lock(small(3))
    try FileManager.default.removeItem(atPath: cache.path(".blobcache"))
    let other = try self.store()
    try other.store(payload(1), for: "another")
    #expect(try other.collect().examined == Int64(Self.smallCount + Self.largeCount + 1))
    let estimate = try #require(try other.usageEstimate())
    #expect(estimate.records == Int64(Self.smallCount + Self.largeCount + 1))
    #expect(estimate.bytes == allBytes + 65)
    try other.checkInvariants()
  }

  // MARK: - Removal

  @Test func aWipeRemovesAll() throws {
    let store = try fill(store())
    try store.lock(small(3))
    let report = try store.removeAll(.all)
    #expect(report.files == Int64(Self.smallCount + Self.largeCount))
    #expect(report.bytes == allBytes)
    #expect(keys(try store.records()).isEmpty)
    #expect(try store.load(small(3)) == nil)
    try store.checkInvariants()
    // The removed records stay removed after the index is rebuilt.
    try FileManager.default.removeItem(atPath: cache.path(".packs/index"))
    #expect(keys(try cache.store().records()).isEmpty)
  }

  @Test func aWipeOfAScopeLeavesTheOthers() throws {
    let store = try fill(store())
    for number in [1, 2] { try store.lock(small(number)) }
    try store.lock(large(0))
    #expect(try store.removeAll(.locked).files == 3)
    expectEachOnce(keys(try store.records()), allKeys.subtracting([small(1), small(2), large(0)]))
    try store.lock(small(5))
    #expect(try store.removeAll(.unlocked).files == Int64(Self.smallCount + Self.largeCount - 4))
    #expect(keys(try store.records()) == [small(5)])
  }

  @Test(arguments: [BlobStore.Durability.none, .full])
  func recordsOfAPrefixAreRemoved(durability: BlobStore.Durability) throws {
    let store = try fill(store { $0.durability = durability })
    #expect(try store.remove(prefix: "small 1").files == 111)
    #expect(try store.remove(prefix: "large").files == Int64(Self.largeCount))
    #expect(keys(try store.records()).count == Self.smallCount - 111)
  }

  // MARK: - Collections

  @Test func whatHasExpiredGoes() throws {
    let store = try fill(store(), ttl: .seconds(10))
    try store.store(payload(5), for: "live", ttl: .seconds(100))
    try store.store(payload(5), for: "locked", ttl: .seconds(10), locks: .one)
    cache.clock.advance(by: 11)
    let dry = try store.collect(BlobStore.CollectionOptions(dryRun: true))
    #expect(dry.expired == Int64(Self.smallCount + Self.largeCount))
    #expect(keys(try store.records()).count == Self.smallCount + Self.largeCount + 2)
    let report = try store.collect()
    #expect(report.expired == Int64(Self.smallCount + Self.largeCount))
    #expect(report.bytesFreed == allBytes)
    #expect([report.recordsAfter, report.failed] == [2, 0])
    expectEachOnce(keys(try store.records()), ["live", "locked"])
    try store.checkInvariants()
  }

  @Test(arguments: [BlobStore.Eviction.oldest, .frequency])
  func theOldestAreEvicted(eviction: BlobStore.Eviction) throws {
    let limits: (inout BlobStore.Configuration) -> Void = {
      $0.limits.eviction = eviction
      $0.expiry.defaultTimeToLive = .seconds(1_000_000)
    }
    let unlimited = try store(limits)
    for number in 0..<100 {
      cache.clock.advance(by: 1)
      try unlimited.store(payload(number.isMultiple(of: 10) ? 2000 : 500), for: BlobKey("key \(number)"))
    }
    let store = try store {
      limits(&$0)
      $0.limits.size = 40_000
    }
    let report = try store.collect()
    #expect(report.evicted > 0)
    #expect(report.bytesAfter <= 36_000)
    let left = try store.usage()
    #expect([left.records, left.bytes - left.recycledBytes] == [report.recordsAfter, report.bytesAfter])
    #expect(left.packedRecords > 0)
    if eviction == .oldest {
      let kept = keys(try store.records())
      expectEachOnce(kept, Set((100 - kept.count..<100).map { BlobKey("key \($0)") }))
    }
    try store.checkInvariants()
  }

  @Test func aLimitOfRecordsIsKept() throws {
    let store = try fill(store())
    let limited = try self.store { $0.limits.count = 50 }
    let report = try limited.collect()
    #expect(report.recordsAfter == 45)
    #expect(keys(try store.records()).count == 45)
  }

  @Test func aTrimReachesItsGoal() throws {
    let store = try fill(store())
    #expect(try store.trim(to: .payloads(upTo: 99)).evicted == Int64(Self.smallCount - 100 + Self.largeCount))
    expectEachOnce(keys(try store.records()), Set((0..<100).map(small)))
    #expect(try store.trim(to: .recordCount(10)).recordsAfter == 10)
    #expect(keys(try store.records()).count == 10)
  }

  /// Passes that have time only for a first part complete a cycle, even if each ends in the middle of packs.
  @Test(arguments: [20, Int.max])
  func passesThatAreCutShortComeRound(smallestPart: Int) throws {
    let store = try fill(store(), ttl: .seconds(10))
    cache.clock.advance(by: 11)
    var options = BlobStore.CollectionOptions(maximumTime: .zero)
    options.smallestPart = smallestPart
    var (passes, expired) = (0, Int64(0))
    while try store.usage().records > 0, passes < 100 {
      expired += try store.collect(options).expired
      passes += 1
    }
    #expect(expired == Int64(Self.smallCount + Self.largeCount))
    #expect(passes > 1 && passes < 100)
  }

  @Test func aDryRunThatIsCutShortCountsEachOnce() throws {
    let store = try fill(store(), ttl: .seconds(10))
    cache.clock.advance(by: 11)
    let limited = try self.store { $0.limits.size = 5000 }
    let report = try limited.collect(BlobStore.CollectionOptions(dryRun: true, maximumTime: .zero))
    #expect(report.expired + report.evicted <= Int64(Self.smallCount + Self.largeCount))
    #expect(try store.usage().records == Int64(Self.smallCount + Self.largeCount))
  }

  @Test func aRecordStampedAheadIsStampedAnew() throws {
    let store = try store()
    cache.clock.advance(by: 1_000_000)
    try store.store(payload(5), for: "key")
    cache.clock.advance(by: -1_000_000)
    #expect(try store.collect().stampedAhead == 1)
    #expect(try store.header(for: "key")?.lastUpdate == cache.clock.now)
    #expect(try store.collect().stampedAhead == 0)
    #expect(try store.load("key")?.payload == payload(5))
  }

  // MARK: - Changes during a walk

  /// Changed extended data moves a record to another place.
  @Test func aRecordThatMovesDuringAWalkIsMetOnce() throws {
    let store = try fill(store())
    var entries = try store.records().makeIterator()
    var found: [BlobKey] = []
    for _ in 0..<20 { found += entries.next().flatMap(\.key).map { [$0] } ?? [] }
    for number in 0..<Self.smallCount { try store.setExtendedData(Data([1]), for: small(number)) }
    while let entry = entries.next() { found += entry.key.map { [$0] } ?? [] }
    expectEachOnce(found, allKeys)
  }

  @Test func aRecordThatMovesFromAFileDuringAWalkIsMet() throws {
    let store = try fill(store())
    var entries = try store.records().makeIterator()
    var found = keys(entries.next().map { [$0] } ?? [])
    for number in 0..<Self.largeCount { try store.store(payload(5), for: large(number)) }
    while let entry = entries.next() { found += entry.key.map { [$0] } ?? [] }
    #expect(Set(found) == allKeys)
  }

  @Test func aWalkGoesOnWithAnIndexThatIsMadeAnew() throws {
    let store = try fill(store())
    var entries = try store.records().makeIterator()
    var found = keys(entries.next().map { [$0] } ?? [])
    try FileManager.default.removeItem(atPath: cache.path(".packs/index"))
    #expect(try cache.store().load(small(1)) != nil)
    try store.store(payload(5), for: "another")
    while let entry = entries.next() { found += entry.key.map { [$0] } ?? [] }
    #expect(Set(found).isSuperset(of: allKeys))
  }

  // MARK: - Files next to packs

  /// A file next to a packed record of the same key does not count, and is removed together with the record.
  @Test func aFileBesideAPackedRecordDoesNotCount() throws {
    let file = try cache.store()
    try file.store(payload(9), for: "key")
    let bytes = try cache.bytes("ke/key")
    try file.remove("key")
    let store = try store()
    try store.store(payload(5), for: "key")
    try cache.write(bytes, to: "ke/key")
    #expect(try store.usage().records == 1)
    #expect(try store.records().map(\.fileSize) == [69])
    #expect(try store.load("key")?.payload == payload(5))
    #expect(try store.removeAll(.all).files == 1)
    #expect(try !cache.exists("ke/key"))
  }

  @Test func packedRecordsAreOfAnyArrangement() throws {
    try fill(store())
    for number in 0..<Self.largeCount { try cache.store().remove(large(number)) }
    try BlobStore.changeSettings(of: cache.root) { $0.arrangement = .spread }
    expectEachOnce(
      keys(try cache.store { $0.layout.arrangement = nil }.records()), Set((0..<Self.smallCount).map(small)))
    expect(.invalidConfiguration) { try BlobStore.changeSettings(of: cache.root) { $0.naming = .sha256 } }
  }
}
