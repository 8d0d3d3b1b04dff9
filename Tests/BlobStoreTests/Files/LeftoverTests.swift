import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, C: files left by killed writers, and damaged files.
@Suite struct LeftoverTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// C2, C3: the kinds of damage that are removed once the file is old, even if it is locked, because it is unusable.
  @Test(arguments: Damage.allCases.filter { $0 != .abandonedStream }) func removesOldDamage(damage: Damage) throws {
    let store = try cache.store { $0.expiry.defaultTimeToLive = .seconds(1000) }
    try store.store(payload(5), for: "key", ttl: .seconds(1_000_000), locks: .one)
    try damage.inflict(on: "ke/key", in: cache)
    let bytes = try cache.bytes("ke/key")
    try cache.setModified("ke/key", cache.now - 1000)
    #expect(try store.collect().damaged == 0)
    #expect(try cache.bytes("ke/key") == bytes)
    // The clock is advanced instead of the file's time set back, because the collection may have set a mark.
    cache.clock.advance(by: 1)
    let report = try store.collect()
    let goes = damage.showsInHeader && !damage.mayBeMeant && damage != .magicMismatch
    #expect(report.damaged == (goes ? 1 : 0))
    #expect(report.bytesFreed == (goes ? Int64(bytes.count) : 0))
    #expect(report.bytesAfter == (goes ? 0 : Int64(bytes.count)))
    #expect(try cache.exists("ke/key") == !goes)
  }

  /// C2.
  @Test(
    arguments: [
      ([], true), ([1], true), (Array("diary".utf8), true), ([UInt8](repeating: 0, count: 63), true),
      ([UInt8](repeating: 0, count: 64), true), ([UInt8](repeating: 0, count: 5000), true),
      ([UInt8](repeating: 0, count: 63) + [1], false), ([UInt8](repeating: 7, count: 64), false),
      (Array("SPTF".utf8) + [UInt8](repeating: 7, count: 60), true),
      (Array("SPTG".utf8) + [UInt8](repeating: 0, count: 60), false),
    ] as [([UInt8], Bool)])
  func removesOldFilesOnlyIfTheyMayHaveBeenRecords(bytes: [UInt8], goes: Bool) throws {
    let store = try cache.store()
    try cache.write(bytes, to: "ke/key")
    try cache.setModified("ke/key", cache.now - 601)
    let report = try store.collect()
    #expect(report.damaged == (goes ? 1 : 0))
    #expect(report.examined == 1)
    #expect(try cache.exists("ke/key") == !goes)
  }

  /// C3.
  @Test func laterVersionsAreNeverCollected() throws {
    let store = try cache.store { $0.limits.size = 1 }
    for (key, damage) in [("size", Damage.wrongHeaderSize), ("flags", .unsupportedFlags)] {
      try cache.store().store(payload(5), for: BlobKey(key), ttl: .seconds(1))
      let file = "\(key.prefix(2))/\(key)"
      try damage.inflict(on: file, in: cache)
      try cache.setModified(file, 0)
    }
    cache.clock.advance(by: 1_000_000)
    let before = try cache.snapshot()
    let report = try store.collect()
    #expect(report.damaged == 0 && report.expired == 0 && report.evicted == 0)
    #expect(try cache.snapshot() == before)
  }

  /// C4.
  @Test func removesTemporaryFilesOfTheDeadOnly() throws {
    let store = try cache.store()
    for file in ["ke/.tmp-1", "ke/.tmp-ffffffffffffffff", ".tmp-2", "ke/.tmp-3"] {
      try cache.write([1, 2, 3], to: file)
    }
    let others = ["ke/.tmp-", "ke/.tmp-somebody", "ke/.tmp-0123456789abcdef0", ".tmp-AB", ".temp"]
    for file in others { try cache.write([1, 2, 3], to: file) }
    try cache.setModified("ke/.tmp-3", 0)
    let writer = try LockedFile(cache.path("ke/.tmp-3"))
    let report = try store.collect()
    #expect(report.temporary == 3)
    #expect(report.bytesFreed == 9)
    #expect(try cache.files() == Set(others + ["ke/.tmp-3"]))
    try writer.unlock()
    #expect(try store.collect().temporary == 1)
    #expect(try cache.files() == Set(others))
  }

  /// C4: a writer of this library holds a lock while it writes.
  @Test func collectionLeavesAStoreUnderWayAlone() throws {
    let trace = CallTrace()
    let cache = cache
    let collector = try cache.store()
    let store = try cache.store(files: trace.files)
    trace.onCall { call, _ in
      // With an unnamed file, the test would prove nothing, because a collection cannot remove it.
      if call == .openUnnamed { return .fail(.notSupported) }
      guard call == .write else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) {
        let report = try collector.collect()
        #expect(report.temporary == 0 && report.subdirectories == 0)
      }
      return nil
    }
    try store.store(payload(5), for: "key")
    #expect(trace.count(.write) > 0)
    #expect(try store.load("key")?.payload == payload(5))
  }

  /// C4: an unnamed file that replaces a record has a name for a moment.
  @Test func collectionLeavesAFileThatIsAboutToReplaceARecord() throws {
    let trace = CallTrace()
    let cache = cache
    let collector = try cache.store()
    let store = try cache.store(files: trace.files) { $0.recycling = .off }
    try store.store(payload(4), for: "key")
    trace.onCall { call, _ in
      guard call == .rename else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) {
        let report = try collector.collect()
        #expect(report.temporary == 0)
      }
      return nil
    }
    _ = trace.take()
    try store.store(payload(5), for: "key")
    #expect(trace.count(.rename) == 1)
    #expect(try store.load("key")?.payload == payload(5))
  }

  /// C5.
  @Test func removesEmptySubdirectoriesAndNothingForeign() throws {
    let store = try cache.store()
    for directory in ["ab", "cd", "long name", "ef/deeper", ".hidden"] { try cache.makeDirectory(directory) }
    try cache.write([1], to: "xy/misplaced")
    try cache.write([1], to: "README.md")
    let report = try store.collect()
    #expect(report.subdirectories == 2)
    #expect(try cache.outside.names(in: "cache") == [".blobcache", ".hidden", "README.md", "ef", "long name", "xy"])
    #expect(try cache.files() == ["xy/misplaced", "README.md"])
    #expect(try store.usage().foreignFiles == 5)
  }

  /// C5: the flat layout has no subdirectories.
  @Test func flatLayoutLeavesSubdirectoriesAlone() throws {
    let store = try cache.store { $0.layout.separatesDirectories = false }
    try cache.makeDirectory("ab")
    #expect(try store.collect().subdirectories == 0)
    #expect(try cache.exists("ab"))
  }

  /// C13, G4.
  @Test func quarantineIsBroughtUnderItsLimit() throws {
    let store = try cache.store { $0.limits.size = 10_000 }
    for (index, name) in ["a", "b", "c"].enumerated() {
      try cache.write([UInt8](repeating: 1, count: 50), to: ".quarantine/\(name)")
      try cache.setModified(".quarantine/\(name)", 1000 - Int64(index))
    }
    let report = try store.collect()
    #expect(report.damaged == 1)
    #expect(report.bytesFreed == 50)
    #expect(report.bytesAfter == 100)
    #expect(try cache.files() == [".quarantine/a", ".quarantine/b"])
  }
}
