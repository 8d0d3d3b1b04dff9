import BlobCache
import BlobRecord
import BlobStore
import Foundation
import Locks
import Posix
import Synchronization
import SystemPackage
import TestSupport
import Testing

/// Loads that are answered on the caller's thread, because the kernel has the file in memory.
@Suite(.enabled(if: SystemCall.hasCachedLookups), .timeLimit(.minutes(30))) struct CachedLoadTests {
  let test: TestCache

  init() throws { test = try TestCache() }

  private func withoutMemory(_ configuration: inout BlobCache.Configuration) { configuration.memory = nil }

  /// Runs a body while the cache can start no thread and has no need to check its directory.
  private func withoutThreads<Result>(
    _ cache: BlobCache, _ body: () async throws -> Result
  ) async throws -> Result {
    // Existing threads would do the work.
    try await until { cache.threadCount == 0 }
    cache.failThreads(with: .resourceTemporarilyUnavailable)
    defer { cache.failThreads(with: nil) }
    var triesLeft = 100
    while true {
      // Checks the directory on this thread, if a second has passed.
      _ = try cache.store.contains("no such key")
      do {
        return try await body()
      } catch let error as BlobCacheError where error.code == .noThread && triesLeft > 0 {
        triesLeft -= 1
      }
    }
  }

  /// Returns a cache with blobs on disk and without threads.
  private func cacheOnDisk(
    _ change: (inout BlobCache.Configuration) -> Void = { $0.memory = nil }
  ) async throws -> BlobCache {
    let other = try test.otherStore()
    for key: BlobKey in ["a", "b", "c"] { try other.store(payload(10), for: key, ttl: .seconds(100)) }
    let cache = try test.cache(change)
    // Opens the directory without a thread of the cache.
    _ = try cache.store.load("a", touching: false)
    return cache
  }

  @Test func noThreadIsNeeded() async throws {
    let cache = try await cacheOnDisk()
    try await withoutThreads(cache) {
      #expect(try await cache.load("a")?.payload == payload(10))
      #expect(try await cache.load("no such key") == nil)
      #expect(try await cache.load("b") { throw CancellationError() }.payload == payload(10))
      #expect(try await cache.contains("a"))
      #expect(try await !cache.contains("no such key"))
      #expect(try await cache.header(for: "a")?.payloadSize == 10)
      let blobs = try await cache.load(["a", "no such key", "b"])
      #expect(try blobs.map { try $0.result.get()?.payload.count } == [10, nil, 10])
    }
    #expect(cache.threadCount == 0)
  }

  /// Files that are not in the kernel's memory are read by a thread.
  @Test func whatWouldWaitGoesToAThread() async throws {
    let cache = try await cacheOnDisk()
    test.disk.answersCached(false)
    #expect(try await cache.load("a")?.payload == payload(10))
    #expect(try await cache.contains("b"))
    #expect(try await cache.header(for: "c")?.payloadSize == 10)
    #expect(try await cache.load(["a", "b"]).count == 2)
    #expect(test.disk.cachedCount == 0)
    #expect(cache.threadCount > 0)
  }

  @Test func manyKeysAreReadInPartByAThread() async throws {
    let cache = try await cacheOnDisk()
    let other = try test.otherStore()
    let keys = (0..<100).map { BlobKey("key \($0)") }
    for (number, key) in keys.enumerated() { try other.store(payload(number), for: key) }
    let blobs = try await cache.load(keys)
    #expect(try blobs.map { try $0.result.get()?.payload } == (0..<100).map { payload($0) })
    // The number of lookups in a row is limited, and each of them makes two nonblocking calls.
    #expect(test.disk.cachedCount <= 64)
    test.disk.answersCached(false)
    #expect(
      try await cache.load(keys.reversed()).map { try $0.result.get()?.payload }
        == (0..<100).reversed().map { payload($0) })
  }

  @Test func theyAreToldOfAndCounted() async throws {
    let cache = try await cacheOnDisk()
    let events = cache.events
    try await withoutThreads(cache) {
      _ = try await cache.load("a")
      _ = try await cache.load("no such key")
      _ = try await cache.load(["b"])
      _ = try await cache.load("c") { payload(1) }
    }
    try await cache.close()
    var words: [String] = []
    for await event in events {
      switch event.kind {
      case .hit(.disk): words.append("hit \(event.key?.string ?? "") \(event.byteCount)")
      case .miss: words.append("miss \(event.key?.string ?? "")")
      default: words.append("\(event.kind)")
      }
      #expect(event.queueTime == .zero)
    }
    #expect(words.suffix(4) == ["hit a 10", "miss no such key", "hit b 10", "hit c 10"])
    // The counts include the loads that set up the cache.
    #expect(try test.otherStore().traffic().hits >= 4)
    #expect(try test.otherStore().traffic().memoryHits == 0)
  }

  /// V1, V8: blobs that were read without a thread are stored in memory until a process changes them.
  @Test func memoryKeepsWhatWasReadSo() async throws {
    let cache = try await cacheOnDisk { _ in }
    let blob = try await withoutThreads(cache) { try await cache.load("a") }
    #expect(blob != nil)
    #expect(cache.blobInMemory(for: "a")?.payload == payload(10))
    try test.otherStore().store(payload(11), for: "a")
    #expect(cache.blobInMemory(for: "a") == nil)
    #expect(try await cache.load("a")?.payload == payload(11))
  }

  /// L2, V3c: the update time is moved soon after the load.
  @Test(arguments: [true, false]) func aUseMovesTheUpdateTime(hasMemory: Bool) async throws {
    let cache = try await cacheOnDisk { if !hasMemory { $0.memory = nil } }
    try test.otherStore().store(payload(10), for: "a")
    for _ in 0..<3 {
      test.clock.advance(by: 100)
      cache.removeAllFromMemory()
      #expect(try await cache.load("a")?.payload == payload(10))
      try await until { try test.otherStore().header(for: "a")?.lastUpdate == test.clock.now }
    }
    let before = test.clock.now
    test.clock.advance(by: 1)
    cache.removeAllFromMemory()
    #expect(try await cache.load("a", touching: false) != nil)
    try await cache.close()
    #expect(try test.otherStore().header(for: "a")?.lastUpdate == before)
  }

  /// A close waits for the pending touches of loads.
  @Test func aTouchIsNotLost() async throws {
    let cache = try await cacheOnDisk()
    try test.otherStore().store(payload(10), for: "a")
    test.clock.advance(by: 2)
    #expect(try await cache.load("a") != nil)
    try await cache.close()
    #expect(try test.otherStore().header(for: "a")?.lastUpdate == test.clock.now)
  }

  /// A4: a cancelled load returns a blob that it finds without waiting.
  @Test func aCancelledTaskGetsWhatIsThere() async throws {
    let cache = try await cacheOnDisk()
    let blob = try await withoutThreads(cache) {
      try await Task {
        withUnsafeCurrentTask { $0?.cancel() }
        return try await cache.load("a")
      }.value
    }
    #expect(blob?.payload == payload(10))
  }

  /// Damage is checked again by a thread, and reported.
  @Test func damageIsReported() async throws {
    let cache = try await cacheOnDisk()
    try test.flipLastByte(of: "a")
    let error = await #expect(throws: BlobStoreError.self) { try await cache.load("a") }
    #expect(error?.code == .damaged)
    #expect(try await cache.load("a") { payload(3) }.payload == payload(3))
  }

  @Test func anAgedBlobIsAnsweredAndProducedAnew() async throws {
    let cache = try await cacheOnDisk()
    test.clock.advance(by: 50)
    let options = ProductionOptions(ttl: .seconds(100), refreshesAfter: .seconds(40))
    #expect(try await cache.load("a", options: options) { payload(7) }.payload == payload(10))
    try await until { try await cache.load("a")?.payload == payload(7) }
  }

  /// Another task of the same actor runs while one task only loads.
  @Test func othersGetTheirTurn() async throws {
    let cache = try await cacheOnDisk()
    let order = Log<String>()
    try await Loader(cache: cache, order: order).load(count: 100)
    try await until { order.all.count == 2 }
    #expect(order.all == ["another", "loaded"])
  }

  private actor Loader {
    let cache: BlobCache
    let order: Log<String>

    init(cache: BlobCache, order: Log<String>) {
      self.cache = cache
      self.order = order
    }

    func load(count: Int) async throws {
      Task { note("another") }
      for _ in 0..<count { _ = try await cache.load("a") }
      note("loaded")
    }

    private func note(_ word: String) { order.append(word) }
  }

  /// Spec/Performance.md: the caller's thread makes no blocking call, even if another process holds locks forever.
  @Test func noCallMayWait() async throws {
    _ = try await cacheOnDisk()
    let calls = Log<SystemCall>()
    let files = Files { call, _ in
      calls.append(call)
      return nil
    }
    let cache = try BlobCache(
      directory: test.root, configuration: test.configuration { $0.memory = nil }, files: files)
    let holder = try StoppedHolder(of: ["a"], in: test)
    try await withoutThreads(cache) {
      let start = calls.all.count
      let loaded = try await cache.load("a")
      #expect(loaded?.payload == payload(10))
      #expect(try await cache.load("b") { throw CancellationError() }.payload == payload(10))
      #expect(try await cache.load("no such key") == nil)
      #expect(try await cache.contains("a"))
      #expect(try await cache.header(for: "a")?.payloadSize == 10)
      let made = calls.all.dropFirst(start)
      #expect(made.contains(.readCached) && made.allSatisfy { !$0.mayWait }, "\(made)")
    }
    withExtendedLifetime(holder) {}
  }

  /// Holds all locks on separate open files, like a process that was stopped.
  private final class StoppedHolder {
    private let locks: HeldLocks
    private var descriptors: [CInt] = []

    init(of names: [String], in test: TestCache) throws {
      locks = try HeldLocks(in: test.root)
      #expect(try locks.take(ControlLayout.lockedBytes))
      for name in [".", ".blobcache"] + names {
        let descriptor = open(test.path(name), name == "." ? O_RDONLY : O_RDWR)
        #expect(descriptor >= 0)
        descriptors.append(descriptor)
        #expect(flock(descriptor, LOCK_EX | LOCK_NB) == 0)
      }
    }

    deinit { for descriptor in descriptors { close(descriptor) } }
  }

  /// Calls to a file system whose server has stopped block threads of the cache, but no task.
  @Test func aFileSystemThatStallsHoldsNoTask() async throws {
    let cache = try await cacheOnDisk()
    test.disk.hold(.openBeneath)
    let loads = (0..<100).map { _ in Task { try await cache.load("a")?.payload } }
    try await test.disk.waitForHeld(1)
    // More tasks wait than the cooperative pool has threads; other caches still work.
    let other = try TestCache()
    let elsewhere = try other.cache()
    try await elsewhere.store(payload(3), for: "b")
    #expect(try await elsewhere.load("b")?.payload == payload(3))
    test.disk.letGo()
    for load in loads { #expect(try await load.value == payload(10)) }
  }

  /// Files that the kernel has evicted are read by a thread, and later without one.
  @Test func droppedFilesAreReadByAThread() async throws {
    let cache = try await cacheOnDisk()
    for _ in 0..<3 {
      for name in ["a", "b", "c"] {
        let descriptor = open(test.path(name), O_RDONLY)
        #expect(descriptor >= 0 && fsync(descriptor) == 0)
        #if os(Linux)
          #expect(posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED) == 0)
        #endif
        close(descriptor)
      }
      for key: BlobKey in ["a", "b", "c"] { #expect(try await cache.load(key)?.payload == payload(10)) }
    }
    #expect(try await withoutThreads(cache) { try await cache.load("a")?.payload } == payload(10))
  }

  /// Pending touches wait in memory, up to the number that the disk completes in a tenth of a second.
  @Test func aDiskThatDoesNotKeepUpIsLeftToThreads() async throws {
    let cache = try await cacheOnDisk()
    try test.otherStore().store(payload(10), for: "a")
    test.clock.advance(by: 100)
    test.disk.hold(.write)
    let before = test.disk.cachedCount
    #expect(try await cache.load("a") != nil)
    try await test.disk.waitForHeld(1)
    for _ in 0..<4300 { #expect(try await cache.load("a") != nil) }
    // One touch is being written, and 4,096 wait; a lookup makes two calls.
    #expect((test.disk.cachedCount - before) / 2 <= 4097)
    #expect((test.disk.cachedCount - before) / 2 > 4000)
    test.disk.letGo()
    try await until { try test.otherStore().header(for: "a")?.lastUpdate == test.clock.now }
    try await cache.close()
  }

  /// A load waits for the previous cache, whose staged blobs are not on disk yet.
  @Test func theNextCacheWaitsForTheOneBefore() async throws {
    var first: BlobCache? = try test.cache {
      var writeBehind = BlobCache.WriteBehind()
      writeBehind.delay = .seconds(1000)
      $0.writing = .behind(writeBehind)
      $0.maxConcurrentOperations = 1
    }
    try await first?.store(payload(1), for: "a")
    try await first?.flush()
    test.disk.hold(.publication)
    try await first?.store(payload(2), for: "a")
    first = nil
    try await test.disk.waitForHeld(1)
    let next = try test.cache { $0.memory = nil }
    // This opens the directory, so that a lookup on the caller's thread could find the record.
    #expect(try next.store.load("a")?.payload == payload(1))
    let load = Task { try await next.load("a")?.payload }
    let contains = Task { try await next.header(for: "a")?.payloadSize }
    try await Task.sleep(for: .milliseconds(20))
    test.disk.letGo()
    #expect(try await load.value == payload(2))
    #expect(try await contains.value == 2)
    try await next.close()
  }
}
