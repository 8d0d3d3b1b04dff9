import BlobRecord
import BlobStore
import Foundation
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#endif

/// Spec/Semantics.md, C: collections that encounter obstacles, and the state that they leave.
@Suite struct HinderedCollectionTests {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  /// M2: a pass that could not read all directories does not prevent the next one from reading them.
  @Test func whatAPassHasMissedTheNextOneCounts() throws {
    try fill()
    settle()
    let store = try cache.store(files: trace.files)
    trace.onCall { call, path in
      call == .openDirectory && path.lastComponent?.string == "bb" ? .fail(.tooManyOpenFiles) : nil
    }
    #expect(try store.collect().failed == 1)
    #expect(try store.usageEstimate() == nil)
    trace.onCall(nil)
    #expect(try store.collect().examined == 4)
    #expect(try store.usageEstimate()?.records == 4)
  }

  /// M2: a pass that is stopped after its walk, before it sets the counters, does not prevent the next from counting.
  @Test func whatHasAMarkIsCountedWhereNobodyKnowsHowMuchThereIs() throws {
    try fill()
    settle()
    let store = try cache.store(files: trace.files)
    let hasWalked = Lock(false)
    trace.onCall { call, path in
      if call == .openDirectory, path.lastComponent?.string == ".quarantine" { hasWalked.withLock { $0 = true } }
      return nil
    }
    var options = BlobStore.CollectionOptions()
    options.isStopped = { hasWalked.withLock { $0 } }
    let report = try store.collect(options)
    #expect(report.wasStopped)
    #expect(report.examined == 4)
    #expect(try store.usageEstimate() == nil)
    try store.collect()
    #expect(try store.usageEstimate()?.records == 4)
  }

  /// C17, C21: a stopped pass does not count as the last one.
  @Test func aPassThatWasStoppedIsNotTheLast() throws {
    try fill()
    let store = try cache.store()
    cache.clock.advance(by: 1_000_000)
    var options = BlobStore.CollectionOptions()
    options.isStopped = { true }
    #expect(try store.collect(options).wasStopped)
    let stopped = try store.statistics()
    #expect(stopped.passes == 0)
    #expect(stopped.lastPass == nil)
    try store.collect()
    #expect(try store.statistics().passes == 1)
    #expect(try store.statistics().expired == 4)
  }

  /// C12, W5: an unreadable quarantine, or a file there that cannot be removed, does not stop the rest of the pass.
  @Test(arguments: [SystemCall.listDirectory, .unlink, .openDirectory])
  func aQuarantineThatFailsIsAllThatFails(call: SystemCall) throws {
    try fill()
    for name in ["old", "new"] { try cache.write([UInt8](repeating: 1, count: 4000), to: ".quarantine/" + name) }
    try cache.setModified(".quarantine/old", 1)
    let store = try cache.store(files: trace.files) { $0.limits.size = 280 }
    trace.onCall { made, path in
      guard made == call, path.string.contains(".quarantine") else { return nil }
      return call == .unlink && path.lastComponent?.string != "old" ? nil : .fail(.notPermitted)
    }
    let report = try store.collect()
    #expect(report.failed == 1)
    #expect(report.evicted > 0)
    if call != .unlink {
      let usage = try store.usage()
      #expect(usage.unreadableFiles == 1)
      #expect(usage.records == 4 - report.evicted)
    }
    let error = #expect(throws: BlobStoreError.self) { try store.removeAll(.all) }
    #expect(error?.errno == .notPermitted)
    #expect(try cache.files() == (call == .unlink ? [".quarantine/old"] : [".quarantine/old", ".quarantine/new"]))
  }

  /// C28: a store that treats records as foreign files does not reset the counters.
  @Test(arguments: [RecordLayout(separatesDirectories: false), RecordLayout(naming: .sha256)])
  func anotherLayoutCorrectsNoCounters(layout: RecordLayout) throws {
    try fill(forgetting: false)
    let store = try cache.store { $0.access.recordsConfiguration = true }
    try store.collect()
    let stranger = try cache.store { $0.layout = .init(layout) }
    #expect(try stranger.usage().records == 0)
    try stranger.collect()
    #expect(try store.usageEstimate()?.records == 4)
  }

  /// C28: such a store does not reset the counters of a directory without a recorded configuration either.
  @Test(arguments: [RecordLayout(separatesDirectories: false), RecordLayout(naming: .sha256)])
  func anotherLayoutCorrectsNoCountersWithoutARecordedOne(layout: RecordLayout) throws {
    let store = try cache.store()
    for key in ["aakey", "bbkey", "cckey"] { try store.store(payload(36), for: BlobKey(key)) }
    try store.collect()
    let stranger = try cache.store { $0.layout = .init(layout) }
    var options = BlobStore.CollectionOptions()
    options.looksAtEverything = true
    try stranger.collect(options)
    #expect(try store.usageEstimate() == BlobStore.UsageEstimate(records: 3, bytes: 300))
    // A hidden file is not a record in any layout.
    for file in [".hidden", "aa/.hidden"] { try cache.write([1], to: file) }
    try FileManager.default.removeItem(atPath: cache.path("bb/bbkey"))
    try store.collect(options)
    #expect(try store.usageEstimate() == BlobStore.UsageEstimate(records: 2, bytes: 200))
    // Any other file may be a record.
    try cache.write([1], to: "stray")
    try FileManager.default.removeItem(atPath: cache.path("cc/cckey"))
    try store.collect(options)
    #expect(try store.usageEstimate() == BlobStore.UsageEstimate(records: 2, bytes: 200))
  }

  /// C9: a dry run counts the room of the records that it would remove, as a collection does.
  @Test func aDryRunCountsTheRoomItWouldMake() throws {
    try cache.store().store(payload(36), for: "live", ttl: .seconds(1_000_000))
    // The file is sparse, so that it takes no room from others on the volume.
    let header = RecordHeader(refCount: 0, ttl: 1, updateTime: UInt64(cache.now), payloadSize: 1 << 30)
    try cache.write(header.encoded, to: "ex/expired")
    try check(truncate(cache.path("ex/expired"), 64 + 1 << 30), "truncate")
    cache.clock.advance(by: 2)
    var volume = statvfs()
    try check(unsafe statvfs(cache.path(""), &volume), "statvfs")
    let available = Int64(volume.f_bavail) * Int64(volume.f_frsize)
    let store = try cache.store {
      $0.limits.size = .max
      $0.limits.freeSpaceFloor = available + 512 << 20
    }
    let report = try store.collect(BlobStore.CollectionOptions(dryRun: true))
    #expect(report.expired == 1)
    #expect(report.evicted == 0)
  }

  /// A directory that may not be a cache is refused, and does not become one.
  @Test func whatMayBeNoCacheIsRefused() throws {
    try cache.write(Array("dear diary".utf8), to: "di/diary")
    let before = try cache.snapshot()
    cache.clock.advance(by: 1_000_000_000)
    var options = BlobStore.CollectionOptions()
    options.requiresCache = true
    expect(.notACache) { try cache.store().collect(options) }
    #expect(try cache.snapshot() == before)
    // A directory that was used as a cache, or looks like one, is accepted.
    try cache.store().store(payload(5), for: "key", ttl: .seconds(1))
    cache.clock.advance(by: 1000)
    #expect(try cache.store().collect(options).damaged == 1)
  }

  @Test func whatHoldsNothingIsNotMadeACache() throws {
    try cache.makeDirectory("documents")
    var options = BlobStore.CollectionOptions()
    options.requiresCache = true
    #expect(try cache.store().collect(options).examined == 0)
    #expect(try !cache.exists(".blobcache"))
  }

  /// Stores four live records in separate subdirectories.
  ///
  /// - Parameter forgetting: A Boolean value that indicates whether the control file with their count is removed.
  private func fill(forgetting: Bool = true) throws {
    let store = try cache.store()
    for key in ["aa", "bb", "cc", "dd"] { try store.store(payload(36), for: BlobKey(key + "key"), ttl: .seconds(1000)) }
    if forgetting { try FileManager.default.removeItem(atPath: cache.path(".blobcache")) }
  }

  /// Waits until later changes are visible in a directory's change time, because marks are set only then.
  private func settle() { SystemClock.sleep(microseconds: 120_000) }
}
