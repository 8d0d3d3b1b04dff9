import BlobRecord
import BlobStore
import Foundation
import PosixFiles
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, C: expiry and what is left over.
@Suite struct CollectionTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// C1.
  @Test func removesTheExpiredAndUnlockedOnly() throws {
    let store = try cache.store()
    try store.store(payload(1), for: "live", ttl: .seconds(10))
    try store.store(payload(2), for: "expired", ttl: .seconds(9))
    try store.store(payload(3), for: "locked", ttl: .seconds(1), locked: true)
    try store.store(payload(4), for: "default")
    cache.clock.advance(by: 10)
    var report = try store.collect()
    #expect(report.examined == 4)
    #expect(report.expired == 1)
    #expect(report.bytesFreed == 66)
    #expect(report.bytesAfter == 3 * 64 + 8)
    #expect(report.subdirectories == 1)
    #expect(report.directory == cache.root)
    #expect(report.wasCutShort == false && report.dryRun == false && report.seconds >= 0)
    #expect(try cache.files() == ["li/live", "lo/locked", "de/default"])
    cache.clock.advance(by: 591)
    report = try store.collect()
    #expect(report.expired == 2)
    #expect(try cache.files() == ["lo/locked"])
  }

  /// C2, C3: which damage goes, once its file is old. Locked ones, too: nothing can be had from them.
  @Test(arguments: Damage.allCases) func removesOldDamage(damage: Damage) throws {
    let store = try cache.store { $0.defaultExpiration = .seconds(1000) }
    try store.store(payload(5), for: "key", ttl: .seconds(1_000_000), locked: true)
    try damage.inflict(on: "ke/key", in: cache)
    let bytes = try cache.bytes("ke/key")
    try cache.setModified("ke/key", cache.now - 1000)
    #expect(try store.collect().damaged == 0)
    #expect(try cache.bytes("ke/key") == bytes)
    try cache.setModified("ke/key", cache.now - 1001)
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
    let store = try cache.store { $0.sizeLimit = 1 }
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
    let writer = try FileDescriptor.open(FilePath(cache.path("ke/.tmp-3")), .readOnly)
    try check(flock(writer.rawValue, LOCK_EX), "flock")
    let report = try store.collect()
    #expect(report.temporary == 3)
    #expect(report.bytesFreed == 9)
    #expect(try cache.files() == Set(others + ["ke/.tmp-3"]))
    try writer.close()
    #expect(try store.collect().temporary == 1)
    #expect(try cache.files() == Set(others))
  }

  /// C4: a writer of this library is one that holds a lock.
  @Test func collectionLeavesAStoreUnderWayAlone() throws {
    let trace = CallTrace()
    let cache = cache
    let collector = try cache.store()
    let store = try cache.store(files: trace.files)
    trace.onCall { call, _ in
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

  /// C8.
  @Test func noTimeAtAllCutsThePassShort() throws {
    let store = try cache.store()
    for key in 0..<20 { try store.store(payload(5), for: "\(key) key", ttl: .seconds(1)) }
    cache.clock.advance(by: 2)
    var passes = 0
    while try store.usage().records > 0 {
      let report = try store.collect(CollectionOptions(maximumTime: .zero))
      #expect(report.wasCutShort)
      #expect(report.examined == report.expired)
      #expect(report.examined <= 1)
      passes += 1
      // Where a pass starts is chosen by chance; that none of so many finds a record is not.
      guard passes < 20_000 else {
        Issue.record("passes never come round")
        break
      }
    }
    #expect(passes >= 20)
  }

  /// C8.
  @Test(arguments: [Duration.seconds(3600), .seconds(Int64.max) * 9]) func timedPassCountsEveryFileOnce(
    time: Duration
  )
    throws
  {
    for separates in [true, false] {
      let cache = try Cache()
      let store = try cache.store { $0.layout.separatesDirectories = separates }
      for key in 0..<40 { try store.store(payload(36), for: "\(key)", locked: key == 0) }
      try cache.write([1], to: ".tmp-7")
      let report = try store.collect(CollectionOptions(maximumTime: time))
      #expect(report.examined == 40)
      #expect(report.bytesAfter == 40 * 100)
      #expect(report.temporary == 1)
      #expect(report.wasCutShort == false)
    }
  }

  /// C9.
  @Test func dryRunReportsTheSameAndChangesNothing() throws {
    let store = try cache.store {
      $0.sizeLimit = 1000
      $0.maximumPayload = 1 << 20
    }
    for key in 0..<20 {
      try store.store(payload(36), for: "\(key) live")
      cache.clock.advance(by: 1)
    }
    for key in 0..<5 { try store.store(payload(36), for: "\(key)expired", ttl: .seconds(1)) }
    try store.store(payload(36), for: "locked", ttl: .seconds(1), locked: true)
    try cache.write([1, 2], to: "da/damaged")
    try cache.setModified("da/damaged", 0)
    try cache.write([1, 2, 3], to: "te/.tmp-1")
    try cache.write([1, 2, 3], to: "fo/foreign/x")
    try cache.write([UInt8](repeating: 1, count: 30), to: ".quarantine/q")
    try cache.makeDirectory("em")
    cache.clock.advance(by: 2)
    let before = try cache.snapshot()
    var predicted = try store.collect(CollectionOptions(dryRun: true))
    #expect(try cache.snapshot() == before)
    #expect(predicted.dryRun)
    var actual = try store.collect()
    #expect(actual.expired == 5 && actual.damaged == 2 && actual.temporary == 1)
    // 21 records of 100 bytes are left, 900 may be.
    #expect(actual.evicted == 12 && actual.bytesAfter == 900)
    #expect(actual.subdirectories == 3 + 5)
    (predicted.seconds, actual.seconds) = (0, 0)
    predicted.dryRun = false
    #expect(predicted == actual)
  }

  /// C10: the record is locked, or stored anew, after the walk has met it.
  @Test(arguments: ["lock", "store", "touch"]) func whatHasChangedSinceItWasMetIsJudgedAgain(change: String) throws {
    let trace = CallTrace()
    let cache = cache
    let other = try cache.store()
    // Expired for the collection, not for the other store, which gives it longer.
    let generous = try cache.store { $0.defaultExpiration = .seconds(10_000) }
    try other.store(payload(5), for: "key")
    cache.clock.advance(by: 700)
    let store = try cache.store(files: trace.files)
    trace.onCall { call, path in
      guard call == .close, path.string.hasSuffix("/key") else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) {
        switch change {
        case "lock": try generous.lock("key")
        case "touch": try generous.touch("key")
        default: try generous.store(payload(6), for: "key")
        }
      }
      return nil
    }
    let report = try store.collect()
    #expect(report.expired == 0)
    #expect(report.examined == 1)
    #expect(report.bytesAfter > 0)
    #expect(try generous.load("key") != nil)
  }

  /// C11.
  @Test func oneCollectionAtATime() throws {
    let trace = CallTrace()
    let cache = cache
    let store = try cache.store(files: trace.files)
    try store.store(payload(5), for: "key")
    trace.onCall { call, _ in
      guard call == .listDirectory else { return nil }
      trace.onCall(nil)
      expect(.collectionRunning) { try store.collect() }
      return nil
    }
    #expect(try store.collect().examined == 1)
    #expect(try store.collect().examined == 1)
  }

  /// C12.
  @Test func whatCannotBeRemovedIsCountedAndLogged() throws {
    let trace = CallTrace()
    let log = RecordedLog()
    let store = try cache.store(files: trace.files) {
      $0.logger = log.logger
      $0.sizeLimit = 100
    }
    for key in ["one", "two", "three"] { try store.store(payload(5), for: BlobKey(key), ttl: .seconds(1)) }
    try store.store(payload(5), for: "four")
    cache.clock.advance(by: 2)
    trace.onCall { call, path in
      if call == .unlink, path.string.hasSuffix("/two") { return .fail(.readOnlyFileSystem) }
      return call == .openBeneath && path.string.hasSuffix("/four") ? .fail(.ioError) : nil
    }
    let report = try store.collect()
    #expect(report.expired == 2)
    #expect(report.failed >= 2)
    #expect(log.warnings.count == Int(report.failed))
    #expect(report.examined == 3)
    #expect(try cache.files() == ["tw/two", "fo/four"])
  }

  /// C12: the walk itself.
  @Test func collectionThatCannotBeMadeIsAnError() throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try store.store(payload(5), for: "key")
    trace.onCall { call, _ in call == .listDirectory ? .fail(.ioError) : nil }
    let error = expect(.fileSystem) { try store.collect() }
    #expect(error?.errno == .ioError)
    trace.onCall(nil)
    #expect(try store.collect().examined == 1)
  }

  /// C13, G4.
  @Test func quarantineIsBroughtUnderItsLimit() throws {
    let store = try cache.store { $0.sizeLimit = 10_000 }
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

/// Spec/Semantics.md, C: size.
@Suite struct EvictionTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// Stores records of 100 bytes, `spacing` seconds apart, from the first on.
  private func fill(_ count: Int, spacing: Int64, locked: (Int) -> Bool = { _ in false }) throws {
    let store = try cache.store()
    for index in 0..<count {
      try store.store(payload(36), for: name(index), ttl: .seconds(1_000_000), locked: locked(index))
      cache.clock.advance(by: spacing)
    }
  }

  private func name(_ index: Int) -> BlobKey { BlobKey("\(index % 7)\(index % 3) record \(index)") }

  private func left() throws -> Set<String> {
    Set(try cache.store().records().compactMap { $0.key?.string })
  }

  private func names(_ indices: some Sequence<Int>) -> Set<String> { Set(indices.map { name($0).string }) }

  /// C6, C7: limit in bytes, records that are left of 20.
  @Test(
    arguments: [
      (1_000_000, 20), (2000, 20), (1999, 17), (1900, 17), (1000, 9), (1010, 9), (1111, 9), (1112, 10), (100, 0),
      (112, 1), (1, 0),
    ] as [(Int64, Int)])
  func oldestGoUntilNineTenthsOfTheLimitAreLeft(limit: Int64, expected: Int) throws {
    try fill(20, spacing: 1)
    let report = try cache.store { $0.sizeLimit = limit }.collect()
    #expect(report.evicted == Int64(20 - expected))
    #expect(report.bytesAfter == Int64(100 * expected))
    #expect(report.bytesFreed == Int64(100 * (20 - expected)))
    #expect(try left() == names((20 - expected)..<20))
  }

  /// C6.
  @Test func withoutALimitNothingIsEvicted() throws {
    try fill(20, spacing: 1)
    #expect(try cache.store { $0.freeSpaceFloor = .max }.collect().evicted == 0)
  }

  /// C7: SPTPersistentCache orders by the fraction of a second.
  @Test func nothingOlderSurvivesTheSecondOfTheBoundary() throws {
    try fill(10, spacing: 0)
    cache.clock.advance(by: 1)
    let store = try cache.store()
    for index in 10..<20 { try store.store(payload(36), for: name(index), ttl: .seconds(1_000_000)) }
    #expect(try cache.store { $0.sizeLimit = 550 }.collect().evicted == 16)
    let kept = try left()
    #expect(kept.count == 4)
    #expect(kept.isSubset(of: names(10..<20)))
  }

  /// C7: large ones in the second of the boundary do not save smaller, older ones.
  @Test func oldestFirstWhateverTheSizes() throws {
    try fill(9, spacing: 0)
    cache.clock.advance(by: 1)
    let store = try cache.store()
    for index in 10..<13 { try store.store(payload(436), for: name(index), ttl: .seconds(1_000_000)) }
    // 2400 bytes; 1000 to be freed: the nine old ones and one of the young.
    let report = try cache.store { $0.sizeLimit = 1556 }.collect()
    #expect(report.evicted == 10)
    #expect(report.bytesAfter == 1000)
    #expect(try left().isSubset(of: names(10..<13)))
  }

  /// C7.
  @Test func manyRecordsOfOneSecondGoInNoOrderButOnlyAsManyAsItTakes() throws {
    try fill(300, spacing: 0)
    let report = try cache.store { $0.sizeLimit = 10_000 }.collect()
    #expect(report.evicted == 210)
    #expect(report.bytesAfter == 9000)
  }

  /// C7.
  @Test func lockedRecordsCountAndStay() throws {
    try fill(20, spacing: 1) { $0 < 10 }
    let report = try cache.store { $0.sizeLimit = 1200 }.collect()
    #expect(report.evicted == 10)
    #expect(report.bytesAfter == 1000)
    #expect(try left() == names(0..<10))
    let rest = try cache.store { $0.sizeLimit = 500 }.collect()
    #expect(rest.evicted == 0 && rest.bytesAfter == 1000)
  }

  /// C7: one from 1970, one from the end of time, many of now.
  @Test func wideSpreadOfTimes() throws {
    try fill(30, spacing: 1)
    for (file, time) in [("a", 0), ("b", UInt64(Int64.max)), ("c", .max), ("d", 1), ("e", UInt64(Int64.max) - 8191)] {
      let header = RecordHeader(ttl: UInt64(Int64.max), updateTime: time, payloadSize: 0)
      try cache.write(record(header, [UInt8](repeating: 7, count: 36)), to: file)
    }
    // 35 records; 18 are left: the two oldest and fifteen of now go.
    let report = try cache.store { $0.sizeLimit = 2000 }.collect()
    #expect(report.evicted == 17)
    #expect(try left() == names(15..<30).union(["b", "c", "e"]))
  }

  /// C7: all times at the end of what a header can say.
  @Test func timesAtTheEndOfTheRange() throws {
    let store = try cache.store { $0.sizeLimit = 500 }
    for index in 0..<10 {
      let header = RecordHeader(updateTime: UInt64(Int64.max) - UInt64(index * 1000), payloadSize: 0)
      try cache.write(record(header, [UInt8](repeating: 7, count: 36)), to: "\(index)")
    }
    #expect(try store.collect().evicted == 6)
    #expect(try left() == ["0", "1", "2", "3"])
  }

  /// C6: a volume that can spare nothing.
  @Test func freeSpaceFloorEvictsAllThatIsUnlocked() throws {
    try fill(20, spacing: 1) { $0 == 3 }
    let store = try cache.store {
      $0.sizeLimit = 1_000_000
      $0.freeSpaceFloor = .max
    }
    #expect(try store.collect().evicted == 19)
    #expect(try left() == names([3]))
  }

  /// C6: damaged and quarantined files count.
  @Test func damagedAndQuarantinedBytesCount() throws {
    try fill(10, spacing: 1)
    try cache.write([UInt8](repeating: 7, count: 500), to: "da/damaged")
    try cache.write([UInt8](repeating: 7, count: 10), to: ".quarantine/q")
    let report = try cache.store { $0.sizeLimit = 1500 }.collect()
    // 1510 bytes, 1350 may stay.
    #expect(report.evicted == 2)
    #expect(report.bytesAfter == 1310)
    #expect(try cache.exists("da/damaged"))
    #expect(try cache.exists(".quarantine/q"))
  }

  /// C8: the size pass after an expiry pass that saw one file; what is expired goes first, being oldest.
  @Test func sizePassRunsOverAllAfterAnExpiryPassCutShort() throws {
    try fill(20, spacing: 1)
    try cache.write([UInt8](repeating: 7, count: 10), to: ".quarantine/q")
    cache.clock.advance(by: 2_000_000)
    let store = try cache.store()
    for index in 20..<25 { try store.store(payload(36), for: name(index)) }
    let report = try cache.store { $0.sizeLimit = 1000 }.collect(CollectionOptions(maximumTime: .zero))
    #expect(report.wasCutShort)
    #expect(report.expired + report.evicted == 17)
    #expect(report.bytesAfter == 810)
    #expect(try left().isSuperset(of: names(20..<25)))
    #expect(try left().count == 8)
  }

  /// C7, C10: locked after it was measured.
  @Test func recordLockedDuringTheCollectionStays() throws {
    let trace = CallTrace()
    let cache = cache
    try fill(3, spacing: 1)
    let other = try cache.store()
    let locked = name(0)
    let store = try cache.store(files: trace.files) { $0.sizeLimit = 100 }
    trace.onCall { call, _ in
      // Between the two passes.
      guard call == .volumeStatus else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) { try other.lock(locked) }
      return nil
    }
    #expect(try store.collect().evicted == 2)
    #expect(try left() == [locked.string])
  }
}
