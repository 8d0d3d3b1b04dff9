import BlobRecord
import BlobStore
import Foundation
import TestSupport
import Testing

/// Spec/ControlFile.md, "Counters": when the counters of a directory are known.
@Suite(.timeLimit(.minutes(30))) struct KnownCounterTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  // MARK: - New directories

  /// A directory without records, in which the control file is created.
  enum NewDirectory: CaseIterable { case missing, empty, withEmptySubdirectories, withTag, withLeftover }

  @Test(arguments: NewDirectory.allCases, RecordArrangement.allCases)
  func theyAreKnownInANewDirectory(_ directory: NewDirectory, arrangement: RecordArrangement) throws {
    switch directory {
    case .missing: break
    case .empty: try cache.makeDirectory("")
    case .withEmptySubdirectories: for name in ["ke", "zz"] { try cache.makeDirectory(name) }
    case .withTag:
      try cache.makeDirectory("")
      try cache.write(Array(CacheDirectoryTag.content.utf8), to: CacheDirectoryTag.name)
    case .withLeftover:
      try cache.makeDirectory("")
      try cache.write([1, 2, 3], to: "ke/.tmp-leftover")
    }
    let store = try cache.store { $0.layout.arrangement = arrangement }
    try store.store(payload(36), for: "key")
    // In the flat layout, a record may have the name of the tag.
    guard directory != .withTag || arrangement != .flat else { return #expect(try store.usageEstimate() == nil) }
    #expect(try store.usageEstimate() == BlobStore.UsageEstimate(records: 1, bytes: 100))
    try store.store(payload(36), for: "other", locks: .one)
    #expect(
      try store.usageEstimate() == BlobStore.UsageEstimate(records: 2, bytes: 200, lockedRecords: 1, lockedBytes: 100))
    try store.collect()
    #expect(try store.usageEstimate()?.records == 2)
  }

  /// With a limit, the first store of a new directory starts no collection.
  @Test func noCollectionCountsANewDirectory() throws {
    let store = try cache.store {
      $0.limits.size = 100_000_000
      $0.limits.collectsOnStore = true
    }
    try store.store(payload(36), for: "key")
    store.waitForCollection()
    #expect(try store.usageEstimate()?.records == 1)
    #expect(try store.statistics().passes == 0)
  }

  /// A file or directory of a record, which exists before the control file.
  @Test(arguments: ["key", "ke/key", "ke/other", ".packs/0000"])
  func theyAreUnknownBesideEarlierRecords(file: String) throws {
    try cache.makeDirectory("")
    try cache.write([1, 2, 3], to: file)
    let store = try cache.store()
    try store.store(payload(36), for: "new")
    #expect(try store.usageEstimate() == nil)
  }

  // MARK: - Other directories

  private func storeWithUnknownCounters() throws -> BlobStore {
    do {
      let store = try cache.store()
      try store.store(payload(36), for: "live")
      try store.store(payload(136), for: "locked", locks: .one)
      try store.store(payload(236), for: "expired", ttl: .seconds(1))
      try store.store(payload(336), for: "damaged")
    }
    var bytes = try cache.bytes("da/damaged")
    bytes[20] ^= 0x10
    try cache.write(bytes, to: "da/damaged")
    cache.clock.advance(by: 10)
    try FileManager.default.removeItem(atPath: cache.path(".blobcache"))
    let store = try cache.store()
    try store.touch("live")
    #expect(try store.usageEstimate() == nil)
    return store
  }

  @Test func countingMakesThemKnown() throws {
    let store = try storeWithUnknownCounters()
    let usage = try store.usage()
    #expect(usage.records == 3)
    #expect(usage.damagedFiles == 1)
    let counted = BlobStore.UsageEstimate(records: 4, bytes: 1000, lockedRecords: 1, lockedBytes: 200)
    #expect(try store.usageEstimate() == counted)
    // Known counters are not set again.
    try FileManager.default.removeItem(atPath: cache.path("li/live"))
    #expect(try store.usage().records == 2)
    #expect(try store.usageEstimate() == counted)
  }

  /// A file of another layout may be a record that the count does not recognize.
  @Test func countingBesideForeignFilesLeavesThemUnknown() throws {
    let store = try storeWithUnknownCounters()
    try cache.write([1, 2, 3], to: "ke/foreign/file")
    #expect(try store.usage().foreignFiles > 0)
    #expect(try store.usageEstimate() == nil)
  }
}
