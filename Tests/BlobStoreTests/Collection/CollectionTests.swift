import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, C: the pass, and expiry.
@Suite struct CollectionTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// C1.
  @Test func removesTheExpiredAndUnlockedOnly() throws {
    let store = try cache.store()
    try store.store(payload(1), for: "live", ttl: .seconds(10))
    try store.store(payload(2), for: "expired", ttl: .seconds(9))
    try store.store(payload(3), for: "locked", ttl: .seconds(1), locks: .one)
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

  /// C8.
  @Test func noTimeAtAllCutsThePassShort() throws {
    let store = try cache.store()
    for key in 0..<20 { try store.store(payload(5), for: "\(key) key", ttl: .seconds(1)) }
    cache.clock.advance(by: 2)
    var passes = 0
    while try store.usage().records > 0 {
      let report = try store.collect(BlobStore.CollectionOptions(maximumTime: .zero))
      #expect(report.wasCutShort)
      #expect(report.examined == report.expired)
      #expect(report.examined <= 1)
      passes += 1
      guard passes <= 40 else {
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
      for key in 0..<40 { try store.store(payload(36), for: "\(key)", locks: key == 0 ? .one : .none) }
      try cache.write([1], to: ".tmp-7")
      let report = try store.collect(BlobStore.CollectionOptions(maximumTime: time))
      #expect(report.examined == 40)
      #expect(report.bytesAfter == 40 * 100)
      #expect(report.temporary == 1)
      #expect(report.wasCutShort == false)
    }
  }

  /// C9.
  @Test func dryRunReportsTheSameAndChangesNothing() throws {
    let store = try cache.store {
      $0.limits.size = 1000
      $0.limits.payload = 1 << 20
    }
    for key in 0..<20 {
      try store.store(payload(36), for: "\(key) live")
      cache.clock.advance(by: 1)
    }
    for key in 0..<5 { try store.store(payload(36), for: "\(key)expired", ttl: .seconds(1)) }
    try store.store(payload(36), for: "locked", ttl: .seconds(1), locks: .one)
    try cache.write([1, 2], to: "da/damaged")
    try cache.setModified("da/damaged", 0)
    try cache.write([1, 2, 3], to: "te/.tmp-1")
    try cache.write([1, 2, 3], to: "fo/foreign/x")
    try cache.write([UInt8](repeating: 1, count: 30), to: ".quarantine/q")
    try cache.makeDirectory("em")
    cache.clock.advance(by: 2)
    let before = try cache.snapshot()
    var predicted = try store.collect(BlobStore.CollectionOptions(dryRun: true))
    #expect(try cache.snapshot() == before)
    #expect(predicted.dryRun)
    var actual = try store.collect()
    #expect(actual.expired == 5 && actual.damaged == 2 && actual.temporary == 1)
    // 21 records of 100 bytes are left; 900 bytes may remain.
    #expect(actual.evicted == 12 && actual.bytesAfter == 900)
    #expect(actual.subdirectories == 3 + 5)
    (predicted.seconds, actual.seconds) = (0, 0)
    predicted.dryRun = false
    // The removed files are in the recycling bin now.
    (predicted.recycledBytesAfter, actual.recycledBytesAfter) = (0, 0)
    #expect(predicted == actual)
  }

  /// C8, C9: an expired record that the pass has visited is not counted again as evicted for the limit.
  @Test(arguments: [true, false]) func dryRunThatIsCutShortCountsNoRecordTwice(separates: Bool) throws {
    let store = try cache.store {
      $0.layout.separatesDirectories = separates
      $0.limits.count = 18
      $0.limits.evictionTarget = 1
    }
    for key in 0..<10 { try store.store(payload(36), for: "\(key) expired", ttl: .seconds(1)) }
    cache.clock.advance(by: 2)
    for key in 0..<10 { try store.store(payload(36), for: "\(key) live") }
    let before = try cache.snapshot()
    let report = try store.collect(BlobStore.CollectionOptions(dryRun: true, maximumTime: .zero))
    #expect(report.wasCutShort)
    #expect(report.expired + report.evicted == 2)
    #expect(report.bytesFreed == 200)
    #expect(report.recordsAfter == 18 && report.bytesAfter == 1800)
    #expect(try cache.snapshot() == before)
  }

  /// C10: the record is locked or stored again after the walk has visited it.
  @Test(arguments: ["lock", "store", "touch"]) func whatHasChangedSinceItWasMetIsJudgedAgain(change: String) throws {
    let trace = CallTrace()
    let cache = cache
    let other = try cache.store()
    // The record is expired for the collection, but not for the other store, whose default time to live is longer.
    let generous = try cache.store { $0.expiry.defaultTimeToLive = .seconds(10_000) }
    try other.store(payload(5), for: "key")
    cache.clock.advance(by: 700)
    let store = try cache.store(files: trace.files)
    trace.onCall { call, path in
      guard call == .close, path.string.hasSuffix("/key") else { return nil }
      // The walk has visited the record, and takes the stripe next in order to remove it.
      trace.onCall { call, _ in
        guard call == .takeStripe else { return nil }
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
      $0.limits.size = 100
    }
    for key in ["one", "two", "three"] { try store.store(payload(5), for: BlobKey(key), ttl: .seconds(1)) }
    try store.store(payload(5), for: "four")
    cache.clock.advance(by: 2)
    trace.onCall { call, path in
      if call == .unlink, path.string.hasSuffix("/two") { return .fail(.readOnlyFileSystem) }
      return [.open, .openBeneath].contains(call) && path.string.hasSuffix("/four") ? .fail(.ioError) : nil
    }
    let report = try store.collect()
    #expect(report.expired == 2)
    #expect(report.failed >= 2)
    #expect(log.warnings.count == Int(report.failed))
    #expect(report.examined == 3)
    #expect(try cache.files() == ["tw/two", "fo/four"])
  }

  /// C12: the walk itself fails.
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
}
