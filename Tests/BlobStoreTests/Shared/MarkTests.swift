import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, C15: subdirectories that a collection passes over, and what keeps it from it.
@Suite struct MarkTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// File systems stamp changes to some milliseconds; younger ones are not gone by.
  private static let settling: UInt32 = 150_000

  /// Stores a record in `ke` and one in `ot`, and collects, so that both are marked.
  private func marked(
    ttl: Duration? = .seconds(100), locks: BlobStore.LockPolicy = .none, _ prepare: () throws -> Void = {}
  ) throws -> BlobStore {
    let store = try cache.store()
    try store.store(payload(36), for: "key", ttl: ttl, locks: locks)
    try store.store(payload(36), for: "other", ttl: .seconds(1_000_000))
    try prepare()
    usleep(Self.settling)
    try store.collect()
    return store
  }

  /// Files that a collection opens to look at.
  private func opened(
    _ change: (inout BlobStore.Configuration) -> Void = { _ in }, _ options: BlobStore.CollectionOptions = .init()
  ) throws -> (files: Set<String>, report: BlobStore.CollectionReport) {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files, change)
    let report = try store.collect(options)
    let files = trace.take().filter { $0.call == .open || $0.call == .openBeneath }.map { FilePath($0.path) }
    return (Set(files.compactMap { $0.lastComponent?.string }.filter { !$0.hasPrefix(".") }), report)
  }

  /// C15.
  @Test func whatCannotBeDueIsNotLookedAt() throws {
    _ = try marked()
    cache.clock.advance(by: 100)
    let (files, report) = try opened()
    #expect(files == [])
    #expect(report.examined == 2 && report.recordsAfter == 2 && report.bytesAfter == 200)
    #expect(report.expired == 0)
    cache.clock.advance(by: 1)
    let next = try opened()
    #expect(next.files == ["key"])
    #expect(next.report.examined == 2 && next.report.expired == 1 && next.report.bytesAfter == 100)
  }

  /// C15: a record without a time to live of its own expires by the collector's default expiration, also if that has
  /// changed since the mark was made.
  @Test func theDefaultExpirationIsTheCollectors() throws {
    _ = try marked(ttl: nil)
    cache.clock.advance(by: 600)
    #expect(try opened().files == [])
    let shorter = try opened { $0.expiry.defaultTimeToLive = .seconds(599) }
    #expect(shorter.files == ["key"] && shorter.report.expired == 1)
  }

  enum Change: CaseIterable {
    case store, remove, create, delete, replace, rename, linkAway
  }

  /// C15: a change by any process or program.
  @Test(arguments: Change.allCases) func aChangedSubdirectoryIsLookedAt(change: Change) throws {
    let other = try marked()
    switch change {
    case .store: try other.store(payload(1), for: "kex")
    case .remove: try other.remove("key")
    case .create: try cache.write([1], to: "ke/foreign")
    case .delete: try FileManager.default.removeItem(atPath: cache.path("ke/key"))
    case .replace:
      try cache.write(cache.bytes("ke/key"), to: "ke/x")
      try check(rename(cache.path("ke/x"), cache.path("ke/key")), "rename")
    case .rename: try check(rename(cache.path("ke/key"), cache.path("ke/kez")), "rename")
    case .linkAway: try check(link(cache.path("ke/key"), cache.path("ke/ke2")), "link")
    }
    let (files, report) = try opened()
    #expect(!files.contains("other"))
    let left = change == .remove || change == .delete ? 0 : change == .store || change == .linkAway ? 2 : 1
    #expect(report.recordsAfter == Int64(left) + 1)
  }

  /// C15: a record that may expire now, or earlier, although no file was made or removed.
  @Test(arguments: ["unlock", "touch"]) func aChangedHeaderLowersTheMark(change: String) throws {
    let start = cache.clock.now.seconds
    let other = try marked(ttl: change == "unlock" ? .seconds(100) : nil, locks: change == "unlock" ? .one : .none)
    if change == "unlock" {
      cache.clock.advance(by: 101)
      #expect(try opened().files == [])
      #expect(try other.unlock("key") == .done)
    } else {
      // The clock is set back, and forth.
      cache.clock.advance(by: -300)
      #expect(try other.touch("key") == .done)
      cache.clock.advance(by: start - cache.clock.now.seconds + 301)
    }
    let (files, report) = try opened()
    #expect(files == ["key"])
    #expect(report.expired == 1)
  }

  /// C15: a record whose file has grown in place; the subdirectory's change time stays.
  @Test func aGrownFileEndsTheMark() throws {
    let store = try cache.store()
    try store.store(payload(36), for: "key", ttl: .seconds(1_000_000), extendedData: payload(1))
    usleep(Self.settling)
    let before = try store.collect().bytesAfter
    #expect(try opened().files == [])
    #expect(try store.setExtendedData(payload(1, 2), for: "key") == .done)
    let (files, report) = try opened()
    #expect(files == ["key"])
    #expect(report.bytesAfter == before + 17)
    #expect(report.bytesAfter == Int64(try cache.bytes("ke/key").count))
    // It has room for the next one.
    #expect(try opened().files == [])
    #expect(try store.setExtendedData(payload(1, 3), for: "key") == .done)
    #expect(try opened().files == [])
  }

  /// C15, C2: damage, once it is old enough.
  @Test func damageIsLookedAtWhenItIsDue() throws {
    _ = try marked {
      try cache.write([1], to: "da/damaged")
      try cache.setModified("da/damaged", cache.now)
    }
    cache.clock.advance(by: 90)
    #expect(try opened().files == [])
    cache.clock.advance(by: 511)
    #expect(try opened().report.damaged == 1)
  }

  /// C15, C4: a writer that was at it may have died since.
  @Test func temporaryFilesAreLookedAtAgain() throws {
    try cache.write([1], to: "ke/.tmp-1")
    let writer = try LockedFile(cache.path("ke/.tmp-1"))
    _ = try marked()
    #expect(try cache.exists("ke/.tmp-1"))
    try writer.unlock()
    #expect(try opened().report.temporary == 1)
  }

  /// C15.
  @Test func everythingIsLookedAtOnceADayAndOnRequest() throws {
    _ = try marked(ttl: .seconds(1_000_000))
    #expect(try opened().files == [])
    var options = BlobStore.CollectionOptions()
    options.looksAtEverything = true
    #expect(try opened({ _ in }, options).files == ["key", "other"])
    #expect(try opened({ _ in }, BlobStore.CollectionOptions(dryRun: true)).files == ["key", "other"])
    #expect(try opened { $0.access.recordsCollections = false }.files == ["key", "other"])
    cache.clock.advance(by: 86_399)
    #expect(try opened().files == [])
    cache.clock.advance(by: 1)
    #expect(try opened().files == ["key", "other"])
    #expect(try opened().files == [])
    // The clock was set back.
    cache.clock.advance(by: -1)
    #expect(try opened().files == ["key", "other"])
  }

  /// C15: what the one naming takes for a record may be none to another.
  @Test func marksAreOfOneNaming() throws {
    _ = try marked()
    #expect(try opened { $0.layout.naming = .verbatim }.files == ["key", "other"])
  }

  /// C15: a mark made before the change time had settled would hide what came after it.
  @Test func aSubdirectoryThatWasJustChangedIsNotMarked() throws {
    let cache = cache
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try store.store(payload(36), for: "key", ttl: .seconds(100))
    trace.onCall { call, path in
      guard call == .status, path.string.hasSuffix("/ke") else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) {
        try cache.write([1], to: "ke/foreign")
        try FileManager.default.removeItem(atPath: cache.path("ke/foreign"))
      }
      return nil
    }
    try store.collect()
    #expect(try opened().files == ["key"])
  }

  /// C6, C15: what was passed over counts, and goes when its turn has come.
  @Test func whatWasPassedOverIsEvicted() throws {
    _ = try marked()
    let report = try cache.store { $0.limits.size = 150 }.collect()
    #expect(report.evicted == 1 && report.bytesAfter == 100 && report.recordsAfter == 1)
    #expect(report.examined == 2)
  }

  /// C15: what was stored since the expired went is met by the look at what was passed over.
  @Test func aKeyMayExpireAndBeEvictedInOneCollection() throws {
    let other = try marked()
    cache.clock.advance(by: 101)
    let trace = CallTrace()
    let store = try cache.store(files: trace.files) { $0.limits.size = 90 }
    // The subdirectory's, which is empty by then.
    trace.onCall { call, _ in
      guard call == .removeDirectory else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) { try other.store(payload(36), for: "key") }
      return nil
    }
    let report = try store.collect()
    #expect(report.expired == 1)
    #expect(report.evicted == 2)
    #expect(report.recordsAfter == 0)
  }

  /// C15: rubbish in the marks costs a walk at the most, or hides files for a day; it breaks nothing.
  @Test(arguments: [0, -1, .min, .max] as [Int64]) func rubbishIsHarmless(word: Int64) throws {
    _ = try marked()
    let file = try FileHandle(forUpdating: URL(filePath: cache.path(".blobcache")))
    try file.seek(toOffset: UInt64(ControlLayout.marksOffset))
    let bytes = withUnsafeBytes(of: word) { Data($0) }
    for _ in 0..<ControlLayout.markCount * ControlLayout.markByteCount / 8 { try file.write(contentsOf: bytes) }
    try file.close()
    let (files, report) = try opened()
    #expect(files == ["key", "other"])
    #expect(report.examined == 2)
    #expect(try cache.store().collect().recordsAfter == 2)
  }

  /// C8: passes that are cut short come round to everything, in order, and go on where the last one stopped.
  @Test func passesThatAreCutShortGoOnWhereTheLastOneStopped() throws {
    let store = try cache.store()
    let names = (0..<40).map { "\($0 + 10) name" }
    for name in names { try store.store(payload(5), for: BlobKey(name)) }
    let trace = CallTrace()
    let collector = try cache.store(files: trace.files) { $0.access.recordsCollections = false }
    var seen: [String] = []
    for _ in names {
      #expect(try collector.collect(BlobStore.CollectionOptions(maximumTime: .zero)).examined == 1)
      seen += trace.take().filter { $0.call == .open }.compactMap { FilePath($0.path).lastComponent?.string }
        .filter { $0.hasSuffix("name") }
    }
    #expect(seen.count == 40)
    #expect(Set(seen) == Set(names))
    // Round again, in the same order.
    #expect(try collector.collect(BlobStore.CollectionOptions(maximumTime: .zero)).examined == 1)
    #expect(try collector.collect(BlobStore.CollectionOptions(maximumTime: .seconds(1000))).wasCutShort == false)
  }
}
