import BlobRecord
import BlobStore
import Foundation
import Locks
import Posix
import Synchronization
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, C26, W5, M5: passes over a directory in which a stopped process holds locks.
///
/// A pass that waited for each busy record would wait up to the timeout of a minute, with thousands of attempts.
@Suite(.timeLimit(.minutes(30))) struct BusyRecordTests {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  /// More attempts than a pass makes for a few records in its 200 ms, because retries are at least 2.5 ms apart.
  private static let mostTries = 1000

  /// Stores records for the `busy` keys, which share a stripe, and as many with other stripes; returns the other keys.
  private func fill(_ busy: [BlobKey], ttl: Duration? = .seconds(1)) throws -> [BlobKey] {
    let store = try cache.store()
    let others = (0..<200).lazy.map { BlobKey("\($0) free") }.filter { $0.stripe != busy[0].stripe }.prefix(busy.count)
    for key in busy + others { try store.store(payload(36), for: key, ttl: ttl) }
    cache.clock.advance(by: 2)
    try cache.forgetCounters()
    return Array(others)
  }

  private func files(_ keys: [BlobKey]) -> Set<String> { Set(keys.map { "\($0.string.prefix(2))/\($0.string)" }) }

  /// Releases the locks immediately before a call.
  private func giveBack(
    _ locks: HeldLocks, _ bytes: Range<Int64>, before isThen: @escaping @Sendable (SystemCall, FilePath) -> Bool,
    _ action: @escaping @Sendable () throws -> Void = {}
  ) {
    let trace = trace
    trace.onCall { call, path in
      guard isThen(call, path) else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) {
        try locks.giveBack(bytes)
        try action()
      }
      return nil
    }
  }

  /// Returns whether a call is the first one after the walk.
  private static let afterWalk: @Sendable (SystemCall, FilePath) -> Bool = { call, path in
    call == .openDirectory && path.lastComponent == ".quarantine"
  }

  // MARK: Collections

  /// C26: if a stopped process holds a stripe, only the records of that stripe stay.
  @Test func aPassLeavesWhatIsBusyAndDoesTheRest() throws {
    let keys = BlobKey.sharingStripe(4)
    _ = try fill(keys)
    // A pause allows the collection to set marks.
    SystemClock.sleep(microseconds: 120_000)
    let locks = try HeldLocks(in: cache)
    #expect(try locks.take(keys[0].stripe))
    let log = RecordedLog()
    let store = try cache.store(files: trace.files) { $0.logger = log.logger }
    let report = try store.collect()
    #expect(report.expired == 4 && report.busy == 4 && report.failed == 4)
    #expect(report.recordsAfter == 4 && report.bytesAfter == 400 && report.bytesFreed == 400)
    #expect(log.warnings.count == 1)
    #expect(try cache.files() == files(keys))
    #expect(trace.count(.takeStripe) < Self.mostTries)
    // Counters that were unknown stay so, because the stopped process may be about to count.
    #expect(try store.usageEstimate() == nil)
    // The collector's lock is free again, and no mark hides the remaining records.
    try locks.giveBack(keys[0].stripe)
    #expect(try cache.store().collect().expired == 4)
    #expect(try cache.files() == [])
  }

  /// C26: records that are free at the end of the pass are removed, even with a timeout of zero.
  @Test func aPassComesBackToWhatWasBusy() throws {
    let keys = BlobKey.sharingStripe(3)
    _ = try fill(keys)
    let locks = try HeldLocks(in: cache)
    #expect(try locks.take(keys[0].stripe))
    let store = try cache.store(files: trace.files) { $0.access.lockTimeout = .zero }
    giveBack(locks, keys[0].stripe, before: Self.afterWalk)
    let report = try store.collect()
    #expect(report.expired == 6 && report.busy == 0 && report.failed == 0)
    #expect(report.recordsAfter == 0 && report.bytesAfter == 0 && report.bytesFreed == 600)
    // C5.
    #expect(report.subdirectories == Set(files(keys).map { $0.prefix(2) }).count + 3)
    #expect(try store.usageEstimate() == nil)
    #expect(try cache.files() == [])
    #expect(try Set(cache.outside.names(in: "cache")).subtracting([".recycled"]) == [".blobcache"])
    try store.collect()
    #expect(try store.usageEstimate() == BlobStore.UsageEstimate())
  }

  enum Meanwhile: CaseIterable {
    case stored, removed, wiped
  }

  /// C10, C26: a busy record is judged again at the end of the pass.
  @Test(arguments: Meanwhile.allCases) func whatWasBusyIsJudgedAgain(meanwhile: Meanwhile) throws {
    let keys = BlobKey.sharingStripe(2)
    _ = try fill(keys)
    let locks = try HeldLocks(in: cache)
    #expect(try locks.take(keys[0].stripe))
    let (cache, other) = (cache, try cache.store())
    giveBack(locks, keys[0].stripe, before: Self.afterWalk) {
      switch meanwhile {
      case .stored: try other.store(payload(5), for: keys[0])
      case .removed: try other.remove(keys[0])
      case .wiped: try FileManager.default.removeItem(atPath: cache.path(String(keys[0].string.prefix(2))))
      }
    }
    let report = try cache.store(files: trace.files).collect()
    #expect(report.busy == 0 && report.failed == 0)
    #expect(try cache.files() == (meanwhile == .stored ? files([keys[0]]) : []))
  }

  /// C12: a busy record that cannot be removed at the end is counted like any other failure.
  @Test func whatWasBusyAndCannotBeRemovedHasFailed() throws {
    let keys = BlobKey.sharingStripe(2)
    _ = try fill(keys)
    let locks = try HeldLocks(in: cache)
    #expect(try locks.take(keys[0].stripe))
    let (trace, file) = (trace, try #require(files([keys[0]]).first))
    giveBack(locks, keys[0].stripe, before: Self.afterWalk) {
      trace.onCall { call, path in
        call == .unlink && path.string.hasSuffix(file) ? .fail(.readOnlyFileSystem) : nil
      }
    }
    let store = try cache.store(files: trace.files) { $0.recycling = .off }
    let report = try store.collect()
    #expect(report.busy == 0 && report.failed == 1 && report.expired == 3)
    #expect(try cache.files() == [file])
  }

  /// C6, C26: younger remembered records are evicted instead of a busy one. Otherwise, the limit stays exceeded.
  @Test(arguments: [1 << 17, 1], [false, true]) func youngerOnesGoForABusyVictim(
    remembered: Int, areAllBusy: Bool
  ) throws {
    let keys = BlobKey.sharingStripe(2)
    let others = try fill(keys, ttl: nil)
    for key in others { try cache.store().touch(key) }
    let locks = try HeldLocks(in: cache)
    #expect(try locks.take(areAllBusy ? ControlLayout.stripeBytes : keys[0].stripe))
    let store = try cache.store(files: trace.files) {
      $0.limits.count = 2
      $0.limits.evictionTarget = 1
    }
    var options = BlobStore.CollectionOptions()
    options.rememberedRecords = remembered
    let report = try store.collect(options)
    #expect(trace.count(.takeStripe) < Self.mostTries)
    let isKept = remembered > 1 && !areAllBusy
    #expect(report.evicted == (isKept ? 2 : 0))
    #expect(report.recordsAfter == (isKept ? 2 : 4) && report.bytesAfter == report.recordsAfter * 100)
    // A walk that remembers nothing tries only as many records as must be evicted.
    #expect(report.busy == (isKept ? 0 : remembered > 1 ? 4 : 2) && report.failed == report.busy)
    #expect(try cache.files() == files(isKept ? keys : keys + others))
  }

  /// Q, C26.
  @Test func aTrimComesBackToWhatWasBusy() throws {
    let keys = BlobKey.sharingStripe(2)
    _ = try fill(keys, ttl: .seconds(1000))
    let locks = try HeldLocks(in: cache)
    #expect(try locks.take(ControlLayout.stripeBytes))
    let store = try cache.store(files: trace.files)
    giveBack(locks, ControlLayout.stripeBytes, before: Self.afterWalk)
    let report = try store.trim(to: .recordCount(1))
    #expect(report.evicted == 3 && report.busy == 0 && report.recordsAfter == 1)
    #expect(try locks.take(ControlLayout.stripeBytes))
    giveBack(locks, ControlLayout.stripeBytes, before: Self.afterWalk)
    #expect(try store.trim(to: .payloads(upTo: 10)).evicted == 1)
    #expect(try cache.files() == [])
  }

  /// C26: the memory for busy records is bounded, but all are counted.
  @Test func ofVeryManyBusyRecordsAllAreCounted() throws {
    let store = try cache.store { $0.access.lockTimeout = .zero }
    let count = 4100
    for number in 0..<count { try store.store(Data(), for: "key \(number)", ttl: .seconds(1)) }
    cache.clock.advance(by: 2)
    let locks = try HeldLocks(in: cache)
    #expect(try locks.take(ControlLayout.stripeBytes))
    let report = try store.collect()
    #expect(report.busy == Int64(count) && report.failed == Int64(count) && report.recordsAfter == Int64(count))
    try locks.giveBack(ControlLayout.stripeBytes)
    #expect(try store.collect().expired == Int64(count))
  }

  /// C19: a stopped pass does not wait, neither at its beginning nor at its end.
  @Test(arguments: [true, false]) func aPassThatIsStoppedDoesNotWait(atItsBeginning: Bool) throws {
    let keys = BlobKey.sharingStripe(2)
    _ = try fill(keys)
    let locks = try HeldLocks(in: cache)
    #expect(try locks.take(keys[0].stripe))
    let trace = trace
    let isStopped = Atomic(false)
    trace.onCall { call, path in
      // The pass first checks whether a change is in progress.
      let isThen = atItsBeginning ? call == .askForLock : Self.afterWalk(call, path)
      if isThen, !isStopped.exchange(true, ordering: .relaxed) { _ = trace.take() }
      return nil
    }
    var options = BlobStore.CollectionOptions()
    options.isStopped = { isStopped.load(ordering: .relaxed) }
    let report = try cache.store(files: trace.files).collect(options)
    #expect(report.wasStopped && report.busy == 0)
    // At most the current file is finished.
    #expect(trace.count(.takeStripe) <= 1)
  }

  // MARK: Limits

  /// M5: a process that is stopped during a collection does not prevent others from making room for their stores.
  @Test func knownVictimsGoWhileAnotherProcessCollects() throws {
    let store = try cache.store {
      $0.limits.size = 24 << 20
      $0.limits.collectsOnStore = true
      $0.recycling = .off
    }
    for key in 0..<26 {
      try store.store(payload(1 << 20), for: "key \(key)")
      store.waitForCollection()
      cache.clock.advance(by: 1)
    }
    let before = try store.statistics()
    let locks = try HeldLocks(in: cache)
    #expect(try locks.take(ControlLayout.collectorByte..<ControlLayout.collectorByte + 1))
    try store.store(Data(count: 19 << 20), for: "large")
    #expect(try store.load("large") != nil)
    var after = try store.statistics()
    // The store continues as soon as it has room; the eviction continues to its target and is counted at the end.
    while after.evictions == before.evictions {
      usleep(500)
      after = try store.statistics()
    }
    #expect(after.evicted > before.evicted && after.passes == before.passes)
    // While the collector's lock is taken, the store retries until it can make a whole collection.
    try locks.giveBack(ControlLayout.collectorByte..<ControlLayout.collectorByte + 1)
    store.waitForCollection()
  }

  // MARK: Wipes

  /// W5: all other records are removed, and the error describes the remaining ones.
  @Test(arguments: BlobStore.RemovalScope.allCases) func aWipeLeavesWhatIsBusyAndRemovesTheRest(
    scope: BlobStore.RemovalScope
  ) throws {
    let keys = BlobKey.sharingStripe(3)
    let others = try fill(keys)
    if scope == .locked {
      for key in keys + others { try cache.store().store(payload(36), for: key, locks: .one) }
    }
    let locks = try HeldLocks(in: cache)
    #expect(try locks.take(keys[0].stripe))
    let store = try cache.store(files: trace.files) { $0.access.lockTimeout = .milliseconds(200) }
    let error = expect(.busy) { try store.removeAll(scope) }
    #expect(error?.message.contains(": 3") == true)
    #expect(try cache.files() == files(keys))
    try locks.giveBack(keys[0].stripe)
    #expect(try store.removeAll(scope).files == 3)
  }

  /// W5, D3: busy records that are free after all others are removed are removed, too.
  @Test(arguments: BlobStore.Durability.allCases) func aWipeComesBackToWhatWasBusy(
    durability: BlobStore.Durability
  ) throws {
    let keys = BlobKey.sharingStripe(2)
    _ = try fill(keys)
    let locks = try HeldLocks(in: cache)
    #expect(try locks.take(keys[0].stripe))
    let trace = trace
    let store = try cache.store(files: trace.files) {
      $0.access.lockTimeout = .zero
      $0.durability = durability
    }
    // Four attempts have been made by then, one for each record.
    giveBack(locks, keys[0].stripe, before: { call, _ in call == .takeStripe && trace.count(.takeStripe) == 5 }) {
      _ = trace.take()
    }
    let report = try store.removeAll(.all)
    #expect(report.files == 4 && report.bytes == 400)
    #expect(try Set(cache.outside.names(in: "cache")).subtracting([".recycled"]) == [".blobcache"])
    // Each subdirectory, and the root.
    #expect(trace.count(.sync) == (durability == .full ? 3 : 0))
  }

  /// W5, W7: the state of a busy record changes before the wipe retries it.
  @Test(arguments: ["removed", "locked", "not removable", "stopped"]) func aWipeJudgesAgain(meanwhile: String) throws {
    let keys = BlobKey.sharingStripe(2)
    _ = try fill(keys, ttl: .seconds(1000))
    let locks = try HeldLocks(in: cache)
    #expect(try locks.take(keys[0].stripe))
    let (trace, other) = (trace, try cache.store())
    let isStopped = Atomic(false)
    let isThen: @Sendable (SystemCall, FilePath) -> Bool = { call, _ in
      call == .takeStripe && trace.count(.takeStripe) == (meanwhile == "stopped" ? 4 : 5)
    }
    giveBack(locks, keys[0].stripe, before: isThen) {
      switch meanwhile {
      case "removed": try other.remove(keys[0])
      case "locked": try other.lock(keys[0])
      case "stopped": isStopped.store(true, ordering: .relaxed)
      default: trace.onCall { call, _ in call == .unlink ? .fail(.readOnlyFileSystem) : nil }
      }
    }
    let store = try cache.store(files: trace.files) { $0.access.lockTimeout = .zero }
    var options = BlobStore.RemovalOptions()
    options.isStopped = { isStopped.load(ordering: .relaxed) }
    func wipe() throws -> BlobStore.RemovalReport { try store.removeAll(.unlocked, options) }
    switch meanwhile {
    case "removed": #expect(try wipe().files == 3)
    case "locked":
      #expect(try wipe().files == 3)
      #expect(try cache.files() == files([keys[0]]))
    case "stopped": #expect(try wipe().wasStopped)
    default: #expect(expect(.fileSystem) { _ = try wipe() }?.errno == .readOnlyFileSystem)
    }
  }

  // MARK: Repairs

  /// G, C26: a repair also retries busy records, and reports the remaining ones.
  @Test(arguments: [true, false]) func aRepairComesBackToWhatWasBusy(isFreed: Bool) throws {
    let keys = BlobKey.sharingStripe(3)
    _ = try fill(keys, ttl: .seconds(1000))
    for file in files(keys) { try Damage.payloadChecksumMismatch.inflict(on: file, in: cache) }
    let locks = try HeldLocks(in: cache)
    #expect(try locks.take(keys[0].stripe))
    let trace = trace
    let log = RecordedLog()
    let store = try cache.store(files: trace.files) {
      $0.access.lockTimeout = .zero
      $0.logger = log.logger
    }
    // Each of the three records has been tried once.
    if isFreed { giveBack(locks, keys[0].stripe, before: { call, _ in call == .takeStripe && trace.count(call) == 4 }) }
    let report = try store.verify(repairing: .remove)
    #expect(report.repairedFiles == (isFreed ? 3 : 0))
    #expect(report.damagedFiles == 3 && report.soundRecords == 3)
    #expect(log.warnings.count == (isFreed ? 0 : 3))
    #expect(try cache.files().isSuperset(of: files(keys)) == !isFreed)
  }
}
