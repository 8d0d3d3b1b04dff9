import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, U.
@Suite struct UsageTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// U1.
  @Test func everyRecordHasItsState() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "live")
    try store.store(payload(5), for: "expired", ttl: .seconds(1))
    try store.store(payload(5), for: "locked", locks: .one)
    try store.store(payload(5), for: "lockedExpired", ttl: .seconds(1), locks: .one)
    try cache.write([1, 2, 3], to: "da/damaged")
    cache.clock.advance(by: 2)
    let entries = Dictionary(uniqueKeysWithValues: try store.records().map { ($0.key?.string ?? "", $0) })
    #expect(
      entries.mapValues(\.state)
        == ["live": .live, "expired": .expired, "locked": .locked, "lockedExpired": .locked, "damaged": .damaged])
    #expect(entries["live"]?.file == "li/live")
    #expect(entries["live"]?.fileSize == 69)
    #expect(entries["live"]?.header == (try cache.header("li/live")))
    #expect(entries["damaged"]?.damage == .notEnoughDataToGetHeader(byteCount: 3))
    #expect(entries["damaged"]?.storedHeader == nil)
    #expect(entries["live"]?.modified.seconds == (try cache.state("li/live")?.modified))
  }

  /// U2.
  @Test func prefixSelectsByBytes() throws {
    let store = try cache.store()
    for key in ["a", "ab", "abc", "a/b", ".a", "é", "e\u{301}x"] { try store.store(payload(1), for: BlobKey(key)) }
    func keys(_ prefix: String) throws -> [[UInt8]] {
      try store.records(prefix: prefix).map { Array(($0.key?.string ?? "").utf8) }
        .sorted { $0.lexicographicallyPrecedes($1) }
    }
    #expect(try keys("a") == ["a", "a/b", "ab", "abc"].map { Array($0.utf8) })
    #expect(try keys("a/") == [Array("a/b".utf8)])
    #expect(try keys("ab") == ["ab", "abc"].map { Array($0.utf8) })
    #expect(try keys(".") == [Array(".a".utf8)])
    #expect(try keys("e") == [Array("e\u{301}x".utf8)])
    #expect(try keys("é") == [Array("é".utf8)])
    #expect(try keys("x") == [])
    #expect(try keys("").count == 7)
    #expect(try keys(String(repeating: "a", count: 300)) == [])
  }

  /// U2, U3.
  @Test func hashedNamesWithoutFlagsTellNoKeys() throws {
    let store = try cache.store { ($0.layout.naming, $0.format) = (.sha256, .reference) }
    try store.store(payload(1), for: "key")
    let entries = Array(try store.records())
    #expect(entries.map(\.state) == [.live])
    #expect(entries[0].key == nil)
    expect(.invalidKey) { _ = try store.records(prefix: "k") }
    expect(.invalidKey) { _ = try store.load(prefix: "k") { $0.first } }
  }

  /// U4: the usage includes the values that SPTPersistentCache reports: the total size and the locked size.
  @Test func usageCountsEveryFileOnce() throws {
    let store = try cache.store()
    #expect(try store.usage() == BlobStore.Usage())
    try store.store(payload(100), for: "a")
    try store.store(payload(200), for: "long", ttl: .seconds(1))
    try store.store(payload(300), for: "locked", locks: .one)
    try store.store(payload(400), for: "lockedExpired", ttl: .seconds(1), locks: .one)
    try cache.write([UInt8](repeating: 1, count: 500), to: "da/damaged")
    try cache.write([UInt8](repeating: 1, count: 50), to: ".quarantine/x")
    try cache.write([UInt8](repeating: 1, count: 40), to: "lo/.tmp-1")
    try cache.write([UInt8](repeating: 1, count: 30), to: "misplaced")
    try cache.write([UInt8](repeating: 1, count: 20), to: "xy/misplaced")
    try cache.write([UInt8](repeating: 1, count: 10), to: ".tmp-somebody's")
    try cache.makeDirectory("xy/zz")
    try cache.makeDirectory("some directory")
    cache.clock.advance(by: 2)
    var expected = BlobStore.Usage()
    expected.records = 4
    expected.bytes = 4 * 64 + 1000 + 500 + 50
    expected.lockedRecords = 2
    expected.lockedBytes = 2 * 64 + 700
    expected.expiredRecords = 1
    expected.expiredBytes = 264
    expected.damagedFiles = 1
    expected.damagedBytes = 500
    expected.quarantinedFiles = 1
    expected.quarantinedBytes = 50
    expected.temporaryFiles = 1
    expected.temporaryBytes = 40
    expected.foreignFiles = 5
    #expect(try store.usage() == expected)
  }

  /// U5.
  @Test(arguments: Damage.allCases) func verificationSeesAllDamage(damage: Damage) throws {
    let store = try cache.store()
    try store.store(payload(300_000), for: "sound")
    try store.store(payload(300_000), for: "key", ttl: .seconds(1))
    cache.clock.advance(by: 2)
    #expect(try store.verify().soundRecords == 2)
    try damage.inflict(on: "ke/key", in: cache)
    var found: [String] = []
    let report = try store.verify { finding in
      if case .record(let entry) = finding, let error = entry.damage { found.append("\(entry.file) \(error.name)") }
    }
    #expect(found == ["ke/key \(damage.rawValue)"])
    #expect(report.damagedFiles == 1)
    #expect(report.soundRecords == 1)
  }

  /// U5.
  @Test func verificationReportsWhatIsNotARecord() throws {
    let store = try cache.store()
    try store.store(payload(1), for: "key")
    try cache.write([1], to: "ke/.tmp-a")
    try cache.write([1], to: "misplaced")
    let report = try store.verify()
    #expect(report.soundRecords == 1)
    #expect(report.temporaryFiles == 1)
    #expect(report.foreignFiles == 1)
    #expect(report.damagedFiles == 0)
    #expect(report.bytes == 65)
  }

  /// U6: the files are in a memory file system, because few file systems on disks support files of this size.
  @Test(.enabled(if: FileManager.default.isWritableFile(atPath: "/dev/shm"), "there is no /dev/shm"))
  func sumsOfHugeFilesSaturate() throws {
    let memory = "/dev/shm/blobcache-test-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: memory, withIntermediateDirectories: false)
    defer { #expect(throws: Never.self) { try FileManager.default.removeItem(atPath: memory) } }
    try check(symlink(memory, cache.root.string), "symlink")
    let store = try cache.store { $0.limits.size = 1000 }
    let size: Int64 = 1 << 62
    for (index, key) in ["a", "b", "c", "d", "e", "f"].enumerated() {
      let time = UInt64(cache.now) + UInt64(index)
      try cache.write(RecordHeader(updateTime: time, payloadSize: UInt64(size - 64)).encoded, to: key)
      try check(truncate(cache.path(key), off_t(size)), "truncate")
    }
    #expect(try store.usage().bytes == .max)
    #expect(try store.usage().records == 6)
    expect(.payloadTooLarge) { _ = try store.load("a") }
    let report = try store.collect()
    #expect(report.evicted > 1)
    #expect(report.bytesFreed == .max)
  }

  /// A store is counted before its record is published, so a concurrent listing must not report less.
  @Test func countingWaitsForAStoreThatIsCountedAndNotThereYet() throws {
    let (trace, others) = (CallTrace(), CallTrace())
    let store = try cache.store(files: trace.files)
    try store.store(payload(10), for: "first")
    let counting = try cache.store(files: others.files)
    let (hasLooked, hasCounted) = (Gate(), Gate())
    others.onCall { call, _ in
      // The store holds a stripe, and the other process checks whether the store is alive.
      if call == .askForLock { hasLooked.open() }
      return nil
    }
    trace.onCall { call, _ in
      guard call == .publication else { return nil }
      trace.onCall(nil)
      Thread.detachNewThread {
        #expect(throws: Never.self) { try counting.collect() }
        hasCounted.open()
      }
      #expect(hasLooked.wait())
      return nil
    }
    try store.store(payload(10), for: "key")
    #expect(hasCounted.wait())
    #expect(try store.usageEstimate()?.records == 2)
  }
}
