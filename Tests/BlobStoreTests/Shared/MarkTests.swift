import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, C15: collections skip marked subdirectories that have not changed.
@Suite struct MarkTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// Timestamps of file systems have a granularity of some milliseconds, so newer ones are not trusted.
  private static let settling: UInt32 = 150_000

  /// Stores a record in `ke` and one in `ot`, and collects, so that both subdirectories are marked.
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

  /// Collects, and returns the files that the collection opens to examine them, and its report.
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

  /// C15: a record without its own time to live expires by the collector's default, also if that has changed since
  /// the mark was written.
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

  /// C15: a subdirectory changed by any process or program is examined.
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

  /// C15: a record may expire earlier without a change of the subdirectory.
  @Test(arguments: ["unlock", "touch"]) func aChangedHeaderLowersTheMark(change: String) throws {
    let start = cache.clock.now.seconds
    let other = try marked(ttl: change == "unlock" ? .seconds(100) : nil, locks: change == "unlock" ? .one : .none)
    if change == "unlock" {
      cache.clock.advance(by: 101)
      #expect(try opened().files == [])
      #expect(try other.unlock("key") == .done)
    } else {
      // The clock is set back and later advanced again.
      cache.clock.advance(by: -300)
      #expect(try other.touch("key") == .done)
      cache.clock.advance(by: start - cache.clock.now.seconds + 301)
    }
    let (files, report) = try opened()
    #expect(files == ["key"])
    #expect(report.expired == 1)
  }

  /// C15: a file that grows in place ends the mark, although the subdirectory's change time is unchanged.
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
    // The file has space for the next extended data.
    #expect(try opened().files == [])
    #expect(try store.setExtendedData(payload(1, 3), for: "key") == .done)
    #expect(try opened().files == [])
  }

  /// C15, C2: damage is handled when it is old enough.
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

  /// C15, C4: the writer of a temporary file may have died in the meantime.
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

  /// C15: a file that is a record with one naming is not necessarily a record with another.
  @Test func marksAreOfOneNaming() throws {
    _ = try marked()
    #expect(try opened { $0.layout.naming = .verbatim }.files == ["key", "other"])
  }

  /// C15: a mark made before the change time has settled could hide later changes.
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

  /// C6, C15: skipped records count toward the limits and are evicted in order.
  @Test func whatWasPassedOverIsEvicted() throws {
    _ = try marked()
    let report = try cache.store { $0.limits.size = 150 }.collect()
    #expect(report.evicted == 1 && report.bytesAfter == 100 && report.recordsAfter == 1)
    #expect(report.examined == 2)
  }

  /// C15: the examination of skipped subdirectories finds a record stored after the expired ones were removed.
  @Test func aKeyMayExpireAndBeEvictedInOneCollection() throws {
    let other = try marked()
    cache.clock.advance(by: 101)
    let trace = CallTrace()
    let store = try cache.store(files: trace.files) { $0.limits.size = 90 }
    // The expired record's subdirectory is empty now.
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

  /// C15: invalid marks can cost a walk or hide files for a day, but break nothing.
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

  /// C8: passes that are cut short visit every record in order, each continuing after the last one.
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
    // The second round visits the records in the same order.
    #expect(try collector.collect(BlobStore.CollectionOptions(maximumTime: .zero)).examined == 1)
    #expect(try collector.collect(BlobStore.CollectionOptions(maximumTime: .seconds(1000))).wasCutShort == false)
  }
}
