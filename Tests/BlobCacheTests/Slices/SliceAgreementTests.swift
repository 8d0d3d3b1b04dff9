import BlobCache
import BlobRecord
import BlobStore
import Foundation
import Posix
import TestSupport
import Testing

/// Spec/Semantics.md, Z9 to Z10: caches of several processes agree on the version of an object.
@Suite(.timeLimit(.minutes(30))) struct SliceAgreementTests {
  let test: TestCache
  let cache: BlobCache
  let old = Origin(payload(1000))
  let new = Origin(payload(1000, 2))

  init() throws {
    test = try TestCache()
    cache = try test.cache()
  }

  /// Leaves the files that another process stores when it reads a version.
  private func leave(_ origin: Origin, _ validator: String, _ range: Range<Int64>) async throws {
    let elsewhere = try TestCache()
    let other = try elsewhere.cache()
    _ = try await Origin(origin.bytes).slices(in: other, sliceSize: 100, validator: validator).read(range)
    let store = try test.otherStore()
    for key in try await elsewhere.sliceKeys(other, "film") {
      try store.store(#require(try await other.load(BlobKey(key))).payload, for: BlobKey(key), ttl: .seconds(1000))
    }
  }

  private func manifest() throws -> Data? { try test.otherStore().load("film@slices", touching: false)?.payload }

  // MARK: Versions

  /// Z9c: a later version that another process has opened remains, and slices of earlier versions are not stored.
  @Test func aLaterVersionOfAnotherProcessStays() async throws {
    let slices = try old.slices(in: cache, sliceSize: 100)
    #expect(try await slices.read(0..<100) == old.bytes[0..<100])
    let first = try manifest()
    try await leave(new, "v2", 0..<200)
    let second = try manifest()
    #expect(first != second)
    for start in [100, 300] as [Int64] {
      #expect(try await slices.read(start..<start + 200) == old.bytes[Int(start)..<Int(start) + 200])
    }
    #expect(try manifest() == second)
    #expect(try await test.sliceKeys(cache).count == 3)
    // A handle that is opened now supersedes the later version, although it reads the earlier one.
    let latest = try old.slices(in: cache, sliceSize: 100)
    #expect(try await latest.read(0..<200) == old.bytes[0..<200])
    #expect(try manifest() == first)
    #expect(try await test.sliceKeys(cache).count == 2)
    #expect(old.asked == [0..<100, 100..<300, 300..<500, 100..<200])
    withExtendedLifetime(slices) {}
  }

  /// Z9c: a slice that was fetched while another process opened a later version is removed again.
  @Test func aSliceBesideALaterVersionGoesAgain() async throws {
    let slices = try old.slices(in: cache, sliceSize: 100)
    _ = try await slices.read(0..<100)
    let latch = Latch()
    old.hold { await latch.wait() }
    let read = Task { try await slices.read(100..<300) }
    try await until { old.asked.count == 2 }
    try await leave(new, "v2", 0..<200)
    let second = try manifest()
    latch.open()
    #expect(try await read.value == old.bytes[100..<300])
    #expect(try await test.sliceKeys(cache).count == 3)
    #expect(try manifest() == second)
  }

  /// Z9: a removal of an earlier version also removes a version that another process opens in the meantime.
  @Test func aVersionOfAnotherProcessMeanwhileGoesToo() async throws {
    try await cache.store(payload(1), for: "other")
    try await leave(old, "v1", 0..<300)
    test.disk.hold(.takeStripe)
    let slices = try new.slices(in: cache, sliceSize: 100, validator: "v2")
    let read = Task { try await slices.read(0..<100) }
    try await test.disk.waitForHeld(1)
    try await leave(Origin(payload(1000, 3)), "v3", 0..<400)
    test.disk.letGo()
    #expect(try await read.value == new.bytes[0..<100])
    #expect(try await test.sliceKeys(cache).count == 1)
  }

  /// Z10a: the removal of an earlier version removes nothing of a later one.
  @Test func theRemovalOfAnEarlierVersionTakesNothingElse() async throws {
    let slices = try old.slices(in: cache, sliceSize: 100)
    _ = try await slices.read(0..<300)
    let latest = try new.slices(in: cache, sliceSize: 100, validator: "v2")
    _ = try await latest.read(0..<200)
    let manifest = try manifest()
    try await slices.remove()
    #expect(try self.manifest() == manifest)
    #expect(try await test.sliceKeys(cache).count == 2)
    try await latest.remove()
    #expect(try await test.sliceKeys(cache, "film").isEmpty)
    try await latest.remove()
    // The first handle stays outdated, and the second one still reads.
    #expect(try await slices.read(0..<10) == old.bytes[0..<10])
    #expect(try await latest.read(0..<10) == new.bytes[0..<10])
    #expect(try await test.sliceKeys(cache).count == 1)
  }

  // MARK: How long the manifest lives

  /// Z9b: the manifest lives as long as the slices, whatever their time to live is.
  @Test(arguments: [nil, .seconds(1), .seconds(100), .never] as [Duration?])
  func theManifestOutlivesItsSlices(ttl: Duration?) async throws {
    let slices = try old.slices(in: cache, sliceSize: 100, options: SliceOptions(ttl: ttl))
    for round in 0..<12 {
      _ = try await slices.read(0..<Int64(100 * min(round + 2, 10)))
      let store = try test.otherStore()
      let manifest = try #require(try store.header(for: "film@slices"))
      let keys = try await test.sliceKeys(cache)
      #expect(!keys.isEmpty)
      for key in keys {
        let slice = try #require(try store.header(for: BlobKey(key)))
        #expect(slice.expiry(defaultExpiration: 600) <= manifest.expiry(defaultExpiration: 600))
      }
      test.clock.advance(by: ttl == nil ? 550 : 90)
      _ = try await cache.collect()
    }
    _ = try await new.slices(in: cache, sliceSize: 100, validator: "v2").read(0..<100)
    #expect(try await test.sliceKeys(cache).count == 1)
  }

  /// Z9b: a handle whose slices live longer extends the life of the manifest.
  @Test func theLongestLifeCounts() async throws {
    let short = try old.slices(in: cache, sliceSize: 100, options: SliceOptions(ttl: .seconds(10)))
    let long = try old.slices(in: cache, sliceSize: 100, options: SliceOptions(ttl: .seconds(1000)))
    _ = try await short.read(0..<100)
    _ = try await long.read(100..<200)
    _ = try await short.read(200..<300)
    test.clock.advance(by: 900)
    #expect(try manifest() != nil)
    #expect(try await long.read(100..<200) == old.bytes[100..<200])
    #expect(old.asked.count == 3)
  }

  // MARK: Cancellation

  /// Z5a: a read that waits for another read's lookup ends when its task is cancelled.
  @Test func aWaitForALookIsCancelled() async throws {
    try await cache.store(payload(1), for: "other")
    test.disk.hold(.openBeneath)
    let slices = try old.slices(in: cache, sliceSize: 100)
    let first = Task { try await slices.read(0..<100) }
    try await test.disk.waitForHeld(1)
    let second = Task { try await slices.read(0..<100) }
    let third = Task { try await slices.read(0..<100) }
    try await until { slices.lookupWaiterCount == 2 }
    second.cancel()
    await #expect(throws: CancellationError.self) { _ = try await second.value }
    test.disk.letGo()
    #expect(try await first.value == old.bytes[0..<100])
    #expect(try await third.value == old.bytes[0..<100])
    #expect(old.asked == [0..<100])
  }

  /// Z5a: cancelling a read interrupts its removal of another version; the next read continues the removal.
  @Test func aCancelledReadEndsTheRemoval() async throws {
    _ = try await old.slices(in: cache, sliceSize: 5).read(0..<1000)
    #expect(try await test.sliceKeys(cache).count == 200)
    let before = try manifest()
    test.disk.hold(.takeStripe)
    let slices = try new.slices(in: cache, sliceSize: 5, validator: "v2")
    let read = Task { try await slices.read(0..<5) }
    try await test.disk.waitForHeld(1)
    read.cancel()
    test.disk.letGo()
    await #expect(throws: CancellationError.self) { _ = try await read.value }
    // One batch was removed.
    #expect(try await test.sliceKeys(cache).count == 136)
    #expect(try manifest() == before)
    #expect(try await slices.read(0..<5) == new.bytes[0..<5])
    #expect(try await test.sliceKeys(cache).count == 1)
  }

  /// Z6a: reading ahead ends with the handle or the cancellation of its last read, unless other reads wait for it.
  @Test(arguments: ["handle", "read", "joined"]) func readingAheadEnds(with end: String) async throws {
    let (begun, ended, latch) = (Counter(), Counter(), Latch())
    func open(readAhead: Int) throws -> CacheSlices {
      try cache.slices(
        of: "film", totalSize: 1000, sliceSize: 100, validator: "v1", options: SliceOptions(readAhead: readAhead)
      ) { [bytes = old.bytes] range in
        if range.lowerBound == 0 { return bytes[range] }
        begun.increment()
        await withTaskCancellationHandler {
          await latch.wait()
        } onCancel: {
          ended.increment()
        }
        return bytes[range]
      }
    }
    let watcher = try open(readAhead: 0)
    var reader: CacheSlices? = try open(readAhead: 200)
    #expect(try await reader?.read(0..<50) == old.bytes[0..<50])
    try await until { begun.count == 1 }
    switch end {
    case "read":
      let read = Task { [reader] in try await reader?.read(900..<950) }
      try await until { begun.count == 2 }
      read.cancel()
      await #expect(throws: CancellationError.self) { _ = try await read.value }
      try await until { ended.count == 2 }
    case "joined":
      let read = Task { try await watcher.read(150..<250) }
      try await until { watcher.fetchWaiterCount == 2 }
      reader = nil
      try await until { watcher.fetchWaiterCount == 1 }
      latch.open()
      #expect(try await read.value == old.bytes[150..<250])
      #expect(ended.count == 0)
    default:
      reader = nil
      try await until { ended.count == 1 }
    }
    latch.open()
    try await until { watcher.fetchCount == 0 }
    #expect(try await test.sliceKeys(cache).count == (end == "joined" ? 3 : 1))
  }

  // MARK: Failures

  /// Z10: whichever call fails, a read returns the correct bytes or throws, and the next read repairs the state.
  @Test func eachFailingCall() async throws {
    let callCount = try await play(failing: nil)
    #expect(callCount > 50)
    for call in 1...callCount { _ = try await play(failing: call) }
  }

  /// - Returns: The number of system calls that were made.
  private func play(failing occurrence: Int?) async throws -> Int {
    let (test, plan) = (try TestCache(), FaultPlan())
    let (old, new) = (Origin(payload(300)), Origin(payload(300, 2)))
    let cache = try BlobCache(
      directory: test.root, configuration: test.configuration { $0.maxConcurrentOperations = 1 }, files: plan.files())
    let slices = try old.slices(in: cache, sliceSize: 100)
    if let occurrence { plan.arm(FaultPlan.Fault(.ioError, call: occurrence)) }
    func attempt(_ expected: Data?, _ body: () async throws -> Data?) async {
      do {
        let found = try await body()
        #expect(found == expected)
      } catch {
        #expect(error is BlobStoreError || error is BlobCacheError, "\(error)")
      }
    }
    await attempt(old.bytes[0..<200]) { try await slices.read(0..<200) }
    await attempt(old.bytes[150..<250]) { try await slices.read(150..<250) }
    let latest = try new.slices(in: cache, sliceSize: 100, validator: "v2")
    await attempt(new.bytes[100..<200]) { try await latest.read(100..<200) }
    await attempt(nil) {
      try await latest.remove()
      return nil
    }
    await attempt(new.bytes[0..<100]) { try await latest.read(0..<100) }
    let callCount = plan.calls.count
    plan.disarm()
    #expect(try await latest.read(0..<300) == new.bytes, "\(plan.failed)")
    #expect(try await test.sliceKeys(cache).count == 3, "\(plan.failed)")
    _ = try await cache.collect()
    #expect(try test.otherStore().usage().temporaryBytes == 0, "\(plan.failed)")
    try await cache.close()
    return callCount
  }
}
