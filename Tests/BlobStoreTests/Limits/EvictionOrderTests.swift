import BlobRecord
import BlobStore
import Foundation
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, C29 to C32: the order in which records are evicted.
@Suite struct EvictionOrderTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  private func store(_ eviction: BlobStore.Eviction = .frequency, bytes: Int64 = 100_000) throws -> BlobStore {
    try cache.store {
      $0.limits.size = bytes
      $0.limits.eviction = eviction
    }
  }

  /// Stores ten records of 100 bytes, ten seconds apart, in a store whose limit they do not reach.
  private func fill(_ store: BlobStore) throws {
    for index in 0..<10 {
      try store.store(payload(36), for: BlobKey("key \(index)"), ttl: .seconds(1_000_000))
      cache.clock.advance(by: 10)
    }
  }

  /// Evicts all records except three, and returns the numbers of these.
  private func left(_ eviction: BlobStore.Eviction, remembered: Int = 1 << 17) throws -> Set<Int> {
    var options = BlobStore.CollectionOptions()
    options.rememberedRecords = remembered
    #expect(try store(eviction, bytes: 340).collect(options).evicted == 7)
    return Set(try store().records().compactMap { $0.key.flatMap { Int($0.string.dropFirst(4)) } })
  }

  /// C29: this holds even if a pass remembers few records, or none.
  @Test(arguments: EvictionTests.remembered) func theUnusedGoBeforeTheUsed(remembered: Int) throws {
    let store = try store()
    try fill(store)
    for _ in 0..<5 { _ = try store.load("key 0") }
    #expect(try left(.frequency, remembered: remembered) == [0, 8, 9])
  }

  /// C29.
  @Test func withOldestUsesDoNotCount() throws {
    let store = try store(.oldest)
    try fill(store)
    for _ in 0..<5 { _ = try store.load("key 0") }
    #expect(try cache.outside.names(in: "cache").contains(".blobcache-uses") == false)
    #expect(try left(.oldest) == [7, 8, 9])
  }

  /// Loads each record as often as requested.
  private func use(_ counts: [Int: Int], in store: BlobStore) throws {
    for (index, count) in counts { for _ in 0..<count { _ = try store.load(BlobKey("key \(index)")) } }
  }

  /// C29: three uses divide a record's age by nine, two by four.
  @Test func agesAreDividedByTheSquareOfUses() throws {
    let store = try store()
    try fill(store)
    // The ages are 100 s, 60 s, 20 s, and 10 s.
    try use([0: 3, 4: 2, 8: 3, 9: 3], in: store)
    #expect(try left(.frequency) == [0, 8, 9])
  }

  /// C29: records that are used twice outlive those used once or never, up to 32 times the age of the latter.
  @Test func oneUseMakesAgesCountForEight() throws {
    let store = try store()
    try fill(store)
    // Ages of 100 s to 80 s count as 25 s to 20 s. The youngest two, 20 s and 10 s old, count as more.
    try use([0: 2, 1: 2, 2: 2, 8: 1], in: store)
    #expect(try left(.frequency) == [0, 1, 2])
  }

  /// C30.
  @Test func whatIsNoUseDoesNotCount() throws {
    let store = try store()
    try fill(store)
    for _ in 0..<9 {
      _ = try store.load("key 0", touching: false)
      _ = try store.contains("key 0")
      _ = try store.header(for: "key 0")
    }
    #expect(try left(.frequency) == [7, 8, 9])
  }

  /// C30: uses by any store object or process count, and so do lookups of a missing key before it is stored.
  @Test func usesOfAllCount() throws {
    let store = try store()
    try store.store(payload(36), for: "first", ttl: .seconds(1_000_000))
    let other = try self.store()
    try other.store(payload(36), for: "first", ttl: .seconds(1_000_000))
    for _ in 0..<5 { #expect(try other.load("key 1") == nil) }
    try fill(store)
    for _ in 0..<5 { _ = try other.load("key 0") }
    try store.remove("first")
    #expect(try left(.frequency) == [0, 1, 9])
  }

  /// C31: a record whose time is more than a minute ahead is evicted first, because its age is unknown.
  @Test(arguments: [61, 3600, 86_400, 86_401, 365 * 86_400] as [Int64], EvictionTests.remembered)
  func aRecordOfAClockThatWasAheadGoesFirst(seconds: Int64, remembered: Int) throws {
    let store = try store()
    let start = cache.now
    cache.clock.advance(by: seconds + 100)
    try store.store(payload(36), for: "ahead", ttl: .seconds(1 << 40))
    cache.clock.now = UnixTime(seconds: start)
    try fill(store)
    var options = BlobStore.CollectionOptions()
    options.rememberedRecords = remembered
    let report = try self.store(bytes: 1099).collect(options)
    #expect(report.evicted == 2)
    #expect(try store.contains("ahead") == false)
    #expect(try store.contains("key 0") == false)
    #expect(try store.contains("key 1"))
  }

  /// C31: the clocks of processes differ slightly.
  @Test func aMinuteAheadCountsAsNow() throws {
    let store = try store()
    try fill(store)
    cache.clock.advance(by: 60)
    try store.store(payload(36), for: "key 0", ttl: .seconds(1_000_000))
    cache.clock.advance(by: -60)
    #expect(try left(.frequency) == [0, 8, 9])
  }

  /// C29: without a valid file of uses, only the order of evictions differs.
  @Test(arguments: ["", "BLOBUSE", String(repeating: "x", count: 8192)])
  func aFileOfUsesThatIsDamagedOrGoneCostsNothingButTheOrder(content: String) throws {
    try fill(store())
    let file = cache.path(".blobcache-uses")
    try FileManager.default.removeItem(atPath: file)
    if !content.isEmpty { try Data(content.utf8).write(to: URL(filePath: file)) }
    let other = try store()
    for _ in 0..<5 { #expect(try other.load("key 0") != nil) }
    #expect(try left(.frequency) == [7, 8, 9])
    #expect(try store().usage().foreignFiles == 0)
  }

  /// C32: a foreign file with this name is not removed.
  @Test func aLinkInThePlaceOfTheFileOfUsesStays() throws {
    try cache.store().store(payload(36), for: "first")
    let link = cache.path(".blobcache-uses")
    try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "elsewhere")
    let store = try store()
    try fill(store)
    for _ in 0..<5 { _ = try store.load("key 0") }
    #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == "elsewhere")
    try store.remove("first")
    #expect(try left(.frequency) == [7, 8, 9])
  }

  /// C32: the file grows with the number of records without losing counts.
  @Test func theFileGrows() throws {
    let store = try store()
    try fill(store)
    for _ in 0..<9 { _ = try store.load("key 0") }
    let size = try bytesOfUses()
    for index in 0..<300 { try store.store(payload(36), for: BlobKey("other \(index)"), ttl: .seconds(1_000_000)) }
    #expect(try bytesOfUses() > size)
    for index in 0..<300 { try store.remove(BlobKey("other \(index)")) }
    #expect(try left(.frequency) == [0, 8, 9])
  }

  /// C29, M5: a known victim that was used since the pass is not evicted.
  @Test func aKnownRecordThatWasUsedSinceStays() throws {
    let store = try cache.store {
      $0.limits.size = 20_000
      $0.limits.collectsOnStore = true
      $0.recycling = .off
    }
    for index in 0..<201 {
      try store.store(payload(36), for: BlobKey("key \(index)"), ttl: .seconds(1_000_000))
      store.waitForCollection()
      cache.clock.advance(by: 1)
    }
    // Twenty-one records have been evicted, and the next victims are known.
    let next = try store.records().compactMap { $0.key }.min {
      Int($0.string.dropFirst(4))! < Int($1.string.dropFirst(4))!
    }
    let key = try #require(next)
    _ = try store.load(key)
    _ = try store.load(key)
    for index in 201..<225 {
      try store.store(payload(36), for: BlobKey("key \(index)"), ttl: .seconds(1_000_000))
      store.waitForCollection()
      cache.clock.advance(by: 1)
    }
    #expect(try store.statistics().evictions > 0)
    #expect(try store.contains(key))
  }

  private func bytesOfUses() throws -> Int {
    try Data(contentsOf: URL(filePath: cache.path(".blobcache-uses"))).count
  }
}
