import BlobRecord
import BlobStore
import Foundation
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, M: the counters for the limits, if they differ from the content of the directory.
@Suite(.timeLimit(.minutes(30))) struct CounterTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  private func limited(_ limit: Int64, files: Files = Files(), records: Bool = false) throws -> BlobStore {
    try cache.store(files: files) {
      $0.access.recordsConfiguration = records
      $0.limits.size = limit
      $0.limits.collectsOnStore = true
    }
  }

  /// Stores records of 100 bytes, one per second.
  private func store(_ keys: Range<Int>, in store: BlobStore) throws {
    for key in keys {
      try store.store(payload(36), for: "\(key) key", ttl: .seconds(100_000))
      // A record that is stored during a collection may be counted twice until the next collection.
      store.waitForCollection()
      cache.clock.advance(by: 1)
    }
  }

  /// M1: another program has removed half of the records from subdirectories whose marks are now wrong. The first
  /// collection that finds fewer records than counted examines everything.
  @Test func countersThatSayTooMuchAreCorrected() throws {
    let store = try limited(100_000)
    try self.store(100..<900, in: store)
    // Subdirectories with more recent changes are not marked.
    usleep(150_000)
    try store.collect()
    #expect(try store.usageEstimate()?.records == 800)
    for name in try FileManager.default.contentsOfDirectory(atPath: cache.path("")) where name < "50" && name > "1" {
      try FileManager.default.removeItem(atPath: cache.path(name))
    }
    let passes = try store.statistics().passes
    try self.store(900..<1150, in: store)
    #expect(try store.usageEstimate()?.records == 650)
    #expect(try store.statistics().evicted == 0)
    #expect(try store.statistics().passes - passes <= 2)
  }

  /// M1: if a walk misses a new record and another record is removed meanwhile, the counters are not lowered.
  @Test func whatAWalkMissesStaysCounted() throws {
    let trace = CallTrace()
    let (store, other) = (try cache.store(files: trace.files) { $0.layout.arrangement = .prefix }, try cache.store())
    for key in ["aa", "bb"] as [BlobKey] { try store.store(payload(10), for: key, ttl: .seconds(1_000_000)) }
    try store.collect()
    let met = Lock<[String]>([])
    trace.onCall { call, path in
      guard call == .openDirectory, let name = ["aa", "bb"].first(where: { path.string.hasSuffix("/" + $0) }) else {
        return nil
      }
      guard
        met.withLock({ names in
          names.append(name)
          return names.count == 2
        }), let first = met.withLock({ $0.first })
      else { return nil }
      // The walk has listed the first subdirectory and is about to list the second.
      #expect(throws: Never.self) {
        try other.store(payload(10), for: BlobKey(first + "x"), ttl: .seconds(1_000_000))
        try other.remove(BlobKey(name))
      }
      return nil
    }
    var options = BlobStore.CollectionOptions()
    options.looksAtEverything = true
    try store.collect(options)
    trace.onCall(nil)
    #expect(met.withLock { $0.count } >= 2)
    #expect(try store.usageEstimate()?.records == 2)
    #expect(try store.usage().records == 2)
  }

  /// When a change of another process is in progress, relative to a walk.
  enum ChangeInProgress: CaseIterable { case whenAWalkBegins, whenAWalkEnds, allTheTime }

  /// M1: a change in progress may have counted a record that is not in its place, or removed one that is still counted.
  /// Therefore the counters are not lowered.
  @Test(arguments: ChangeInProgress.allCases, [true, false])
  func countersAreNotLoweredDuringAChange(change: ChangeInProgress, areKnown: Bool) throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try self.store(10..<20, in: store)
    var options = BlobStore.CollectionOptions()
    options.looksAtEverything = true
    try store.collect(options)
    for name in ["11", "12"] { try FileManager.default.removeItem(atPath: cache.path(name)) }
    let locks = try HeldLocks(in: cache)
    if change != .whenAWalkEnds { #expect(try locks.take(0..<1)) }
    let walks = CallCount()
    trace.onCall { call, path in
      guard call == .openDirectory, path.string.hasSuffix("/15") else { return nil }
      defer { walks.add(1) }
      guard walks.value == 0 else { return nil }
      switch change {
      case .whenAWalkBegins: #expect(throws: Never.self) { try locks.giveBack(0..<1) }
      case .whenAWalkEnds: #expect((try? locks.take(0..<1)) == true)
      case .allTheTime: break
      }
      return nil
    }
    if !areKnown { try cache.forgetCounters() }
    try store.collect(options)
    trace.onCall(nil)
    #expect(walks.value > 0)
    #expect(try store.usageEstimate()?.records == (areKnown ? 10 : nil))
    if change != .whenAWalkBegins { try locks.giveBack(0..<1) }
    try store.checkInvariants()
    try store.collect(options)
    #expect(try store.usageEstimate()?.records == 8)
  }

  /// M1: unknown counters may also be too low, and then a change in progress is missing in the result of the walk too.
  @Test func unknownCountersStayUnknownDuringAChange() throws {
    let store = try cache.store()
    try self.store(10..<20, in: store)
    try FileManager.default.removeItem(atPath: cache.path(".blobcache"))
    try self.store(20..<21, in: try cache.store())
    let locks = try HeldLocks(in: cache)
    #expect(try locks.take(0..<1))
    try cache.store().collect()
    #expect(try cache.store().usageEstimate() == nil)
    try locks.giveBack(0..<1)
    try cache.store().collect()
    #expect(try cache.store().usageEstimate()?.records == 11)
  }

  /// M2: a damaged record that was counted as unlocked is subtracted as unlocked when it is removed or replaced.
  @Test(arguments: Damage.allCases.filter { $0.showsInHeader && $0 != .abandonedStream }, [true, false])
  func aDamagedRecordThatIsCountedAsUnlockedLeavesAsThat(damage: Damage, isReplaced: Bool) throws {
    let store = try cache.store()
    try store.store(payload(10), for: "key", locks: .one)
    try damage.inflict(on: "ke/key", in: cache)
    var options = BlobStore.CollectionOptions()
    options.looksAtEverything = true
    #expect(try store.collect(options).damaged == 0)
    #expect(try store.usageEstimate()?.lockedBytes == 0)
    if isReplaced { try store.store(payload(10), for: "key") } else { try store.remove("key") }
    #expect(try store.usageEstimate()?.lockedBytes == 0)
  }

  @Test(arguments: [Errno.permissionDenied, .ioError]) func aFileThatCannotBeReadIsCounted(errno: Errno) throws {
    try store(0..<10, in: try cache.store())
    try FileManager.default.removeItem(atPath: cache.path(".blobcache"))
    let trace = CallTrace()
    trace.onCall { call, path in
      [.open, .openBeneath].contains(call) && path.string.hasSuffix("/3 key") ? .fail(errno) : nil
    }
    let store = try limited(100_000, files: trace.files)
    try self.store(10..<11, in: store)
    let report = try store.collect()
    #expect(report.failed == 1)
    #expect(report.recordsAfter == 11 && report.bytesAfter == 1100)
    #expect(try store.usageEstimate() == BlobStore.UsageEstimate(records: 11, bytes: 1100))
  }

  /// F1: another user's unreadable file is not a record, whatever its size; an empty file of the caller's is one.
  @Test(.enabled(if: geteuid() == 0, "only the superuser gives files away"), arguments: [true, false])
  func anUnreadableFileOfSomebodyElseIsForeign(isPlain: Bool) throws {
    let name = isPlain ? "somebody" : "some%62ody"
    try cache.makeDirectory("so")
    try check(chown(cache.root.string, 4321, 4321), "chown")
    try check(close(creat(cache.path("so/" + name), 0o600)), "creat")
    try check(truncate(cache.path("so/" + name), 1 << 20), "truncate")
    try check(chown(cache.path("so/" + name), 1234, 1234), "chown")
    try check(close(creat(cache.path("so/someone"), 0o600)), "creat")
    let trace = CallTrace()
    trace.onCall { call, path in
      [.open, .openBeneath].contains(call) && path.string.contains("/so/") ? .fail(.permissionDenied) : nil
    }
    // One of the names belongs to no key of this layout, which is stated, so the file is no record of another one.
    let store = try limited(100_000, files: trace.files, records: true)
    try self.store(0..<1, in: store)
    let report = try store.collect()
    #expect(report.failed == 1 && report.evicted == 0)
    #expect(try store.usageEstimate() == BlobStore.UsageEstimate(records: 2, bytes: 100))
    #expect(try store.usage().foreignFiles == 1)
    try store.removeAll(.all)
    #expect(try cache.files() == ["so/" + name, ".blobcache.used"])
  }

  /// M1, M4: uncounted records may exceed the limit. Stores do not repeat the walk each time, and a store that needs
  /// space fails immediately.
  @Test func countersThatCannotBeCorrectedEndInALimit() throws {
    let walks = CallCount()
    let trace = CallTrace()
    let store = try limited(100_000, files: trace.files)
    try self.store(100..<1000, in: store)
    usleep(150_000)
    try store.collect()
    for name in try FileManager.default.contentsOfDirectory(atPath: cache.path("")) where name < "50" && name > "1" {
      try FileManager.default.removeItem(atPath: cache.path(name))
    }
    trace.onCall { call, path in
      guard call == .openDirectory, path.string.hasSuffix("/99") else { return nil }
      walks.add(1)
      return .fail(.ioError)
    }
    try self.store(1000..<1200, in: store)
    #expect(try store.usageEstimate()?.records == 1100)
    // At most one walk for each second, because the next attempt is delayed.
    #expect((1...10).contains(walks.value))
  }

  /// M2: a subdirectory without access permission is left out of the count; another error leaves the count unknown.
  @Test(arguments: [(.permissionDenied, true), (.ioError, false)] as [(Errno, Bool)])
  func aSubdirectoryThatCannotBeListed(errno: Errno, isKnown: Bool) throws {
    try store(0..<10, in: try cache.store())
    try FileManager.default.removeItem(atPath: cache.path(".blobcache"))
    let trace = CallTrace()
    trace.onCall { call, path in call == .openDirectory && path.string.hasSuffix("/3 ") ? .fail(errno) : nil }
    let store = try limited(100_000, files: trace.files)
    try self.store(10..<11, in: store)
    var options = BlobStore.CollectionOptions()
    options.looksAtEverything = true
    #expect(try store.collect(options).failed == 1)
    #expect(try store.usageEstimate() == (isKnown ? BlobStore.UsageEstimate(records: 10, bytes: 1000) : nil))
    // If the counters are known, a collection that finds less because of errors does not change them.
    trace.onCall(nil)
    try store.collect(options)
    trace.onCall { call, path in call == .openDirectory && path.string.hasSuffix("/3 ") ? .fail(errno) : nil }
    try store.collect(options)
    #expect(try store.usageEstimate() == BlobStore.UsageEstimate(records: 11, bytes: 1100))
  }

  /// C12, W5: an error in a listing skips only the rest of that subdirectory.
  @Test func aListingThatBreaksOffEndsNoWalk() throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try self.store(10..<30, in: store)
    cache.clock.advance(by: 200_000)
    trace.onCall { call, path in call == .listDirectory && path.string.hasSuffix("/20") ? .fail(.ioError) : nil }
    let report = try store.collect()
    #expect(report.expired == 19)
    #expect(report.failed == 1)
    try self.store(30..<40, in: store)
    let error = expect(.fileSystem) { try store.removeAll(.all) }
    #expect(error?.errno == .ioError)
    #expect(try cache.files() == ["20/20 key"])
  }

  /// G: a locked record with a damaged payload is subtracted from the counters as a locked one. A quarantine that
  /// cannot be trimmed does not prevent counting.
  @Test(arguments: [BlobStore.DamagePolicy.remove, .quarantine]) func discardedRecordsAreCounted(
    policy: BlobStore.DamagePolicy
  ) throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files) { $0.damagePolicy = policy }
    try store.store(payload(36), for: "key", locks: .one)
    try store.store(payload(36), for: "other")
    try store.collect()
    #expect(try store.usageEstimate()?.lockedBytes == 100)
    try Damage.payloadChecksumMismatch.inflict(on: "ke/key", in: cache)
    trace.onCall { call, path in call == .listDirectory && path.string.hasSuffix("quarantine") ? .fail(.ioError) : nil }
    expect(.damaged) { _ = try store.load("key") }
    #expect(try !cache.exists("ke/key"))
    #expect(try store.usageEstimate() == BlobStore.UsageEstimate(records: 1, bytes: 100))
  }

  /// Marks with impossible values, which no store writes.
  @Test func marksWhoseSumIsNoNumberAreNotBelieved() throws {
    try store(10..<20, in: try cache.store())
    usleep(150_000)
    try cache.store().collect()
    let file = try FileHandle(forUpdating: URL(filePath: cache.path(".blobcache")))
    for slot in 0..<ControlLayout.markCount {
      let offset = UInt64(ControlLayout.marksOffset + slot * ControlLayout.markByteCount)
      try file.seek(toOffset: offset)
      guard try file.read(upToCount: 8) != Data(count: 8) else { continue }
      try file.seek(toOffset: offset + 48)
      try file.write(contentsOf: withUnsafeBytes(of: Int64.max) { Data($0) })
    }
    try file.close()
    #expect(try cache.store().collect().recordsAfter == 10)
  }
}
