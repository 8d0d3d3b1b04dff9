import BlobCache
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Stores that return before the blob is written to disk.
@Suite struct WriteBehindTests {
  let test: TestCache
  let cache: BlobCache

  init() throws {
    test = try TestCache()
    cache = try test.cache {
      $0.writing = .behind(BlobCache.WriteBehind())
      // With one writer, a held write holds all others.
      $0.maxConcurrentOperations = 1
      // The exclusion from backups would write an additional file.
      $0.excludesFromBackups = false
    }
  }

  private func onDisk(_ key: BlobKey) throws -> Data? { try test.otherStore().load(key)?.payload }

  /// Blocks the writes of staged blobs.
  private func holdWrites() async throws {
    // The first store creates the control file.
    try await cache.store(payload(1), for: "first")
    try await cache.flush()
    test.disk.hold(.publication)
    try await cache.store(payload(1), for: "held")
    try await test.disk.waitForHeld(1)
  }

  @Test func aStoreReturnsBeforeTheDiskAndAFlushAfterIt() async throws {
    try await holdWrites()
    try await cache.store(payload(10), for: "a")
    #expect(try onDisk("a") == nil)
    #expect(cache.blobInMemory(for: "a")?.payload == payload(10))
    #expect(try await cache.load("a")?.payload == payload(10))
    #expect(try await cache.contains("a"))
    #expect(try await cache.header(for: "a")?.payloadSize == 10)
    test.disk.letGo()
    try await cache.flush()
    #expect(try onDisk("a") == payload(10))
    #expect(try onDisk("held") != nil)
  }

  @Test func storesOfOneKeyCoalesce() async throws {
    try await holdWrites()
    for seed in UInt64(1)...100 { try await cache.store(payload(10, seed), for: "a") }
    #expect(try await cache.load("a")?.payload == payload(10, 100))
    let before = test.disk.count(.publication)
    test.disk.letGo()
    try await cache.flush("a")
    #expect(try onDisk("a") == payload(10, 100))
    try await cache.flush()
    #expect(test.disk.count(.publication) - before <= 2)
  }

  @Test func flushingAKeyWritesThatOne() async throws {
    let cache = self.cache
    try await holdWrites()
    try await cache.store(payload(10), for: "a")
    test.disk.letGo()
    try await cache.flush("a")
    #expect(try onDisk("a") == payload(10))
  }

  @Test func aRemovalTakesWhatIsStaged() async throws {
    try await holdWrites()
    try await cache.store(payload(10), for: "a")
    #expect(try await cache.remove("a") == .done)
    #expect(try await cache.load("a") == nil)
    test.disk.letGo()
    try await cache.flush()
    #expect(try onDisk("a") == nil)
  }

  @Test func aWipeTakesWhatIsStaged() async throws {
    try await holdWrites()
    try await cache.store(payload(10), for: "a")
    test.disk.letGo()
    try await cache.removeAll(.all)
    #expect(try await cache.load("a") == nil)
    try await cache.flush()
    #expect(try onDisk("a") == nil)
  }

  @Test func locksConcernWhatWasStaged() async throws {
    try await cache.store(payload(10), for: "a")
    #expect(try await cache.lock("a") == .done)
    #expect(try test.otherStore().header(for: "a")?.refCount == 1)
    #expect(try await cache.unlock("a") == .done)
    try await cache.store(payload(11), for: "a")
    #expect(try await cache.touch("a") == .done)
    #expect(try onDisk("a") == payload(11))
  }

  @Test func aStoreThatLocksIsWrittenThrough() async throws {
    try await cache.store(payload(10, 1), for: "a")
    try await cache.store(payload(10, 2), for: "a", locks: .one)
    #expect(try onDisk("a") == payload(10, 2))
    try await cache.store(payload(10, 3), for: "a", locks: .keep)
    #expect(try test.otherStore().header(for: "a")?.refCount == 1)
    try await cache.flush()
    #expect(try onDisk("a") == payload(10, 3))
  }

  @Test func withoutRoomAStoreWaitsForTheDisk() async throws {
    let test = try TestCache()
    var writeBehind = BlobCache.WriteBehind()
    // Each staged blob is counted with 512 additional bytes and its key.
    writeBehind.byteLimit = 2000
    writeBehind.delay = .seconds(1000)
    let cache = try test.cache { $0.writing = .behind(writeBehind) }
    try await cache.store(payload(600), for: "a")
    try await cache.store(payload(600), for: "b")
    #expect(try test.otherStore().load("a") == nil)
    #expect(try test.otherStore().load("b")?.payload == payload(600))
    try await cache.store(payload(5000), for: "c")
    #expect(try test.otherStore().load("c") != nil)
    try await cache.close()
    #expect(try test.otherStore().load("a")?.payload == payload(600))
  }

  @Test func aWriteThatFailsIsToldByTheFlushAndByAnEvent() async throws {
    var events = cache.events.makeAsyncIterator()
    test.disk.fail(.write, .noSpace)
    try await cache.store(payload(10), for: "a")
    let error = await expect(.writeFailed) { try await cache.flush() }
    #expect(error?.key == "a")
    #expect((error?.cause as? BlobStoreError)?.errno == .noSpace)
    while let event = await events.next() {
      guard case .writeFailed = event.kind else { continue }
      #expect(event.key == "a")
      break
    }
    // The failure is reported once. After that, the key has no blob, as before.
    try await cache.flush()
    #expect(try await cache.load("a") == nil)
    test.disk.fail(.write, nil)
    try await cache.store(payload(11), for: "a")
    try await cache.flush("a")
    #expect(try onDisk("a") == payload(11))
  }

  @Test func aFlushOfAKeyTellsOfItsFailure() async throws {
    test.disk.fail(.write, .noSpace)
    try await cache.store(payload(10), for: "a")
    await expect(.writeFailed) { try await cache.flush("a") }
    await expect(.writeFailed) {
      try await cache.store(payload(10), for: "a")
      try await cache.lock("a")
    }
    test.disk.fail(.write, nil)
    try await cache.flush()
  }

  @Test func aFailedStoreThroughLeavesWhatWasStaged() async throws {
    try await holdWrites()
    try await cache.store(payload(10, 1), for: "a")
    test.disk.letGo()
    try await cache.flush("held")
    try await cache.flush("a")
    test.disk.fail(.sync, .ioError)
    test.disk.fail(.write, .ioError)
    await #expect(throws: (any Error).self) { try await cache.store(payload(10, 2), for: "a", locks: .one) }
    test.disk.fail(.write, nil)
    test.disk.fail(.sync, nil)
    #expect(try await cache.load("a")?.payload == payload(10, 1))
  }

  @Test func manyKeysTellWhyTheyAreNotOnDisk() async throws {
    test.disk.fail(.write, .noSpace)
    try await cache.store(payload(10), for: "a")
    for result in try await cache.lock(["a"]) {
      let error = #expect(throws: BlobStoreError.self) { try result.result.get() }
      #expect(error?.code == .fileSystem)
      #expect(error?.errno == .noSpace)
    }
  }

  /// An enumeration first writes staged blobs, which may start a collection. The lock order allows that.
  @Test func anEnumerationOnAFullVolumeSaysSo() async throws {
    // Without an available thread, the enumeration itself writes the staged blobs.
    cache.failThreads(with: .resourceTemporarilyUnavailable)
    try await cache.store(payload(10), for: "a")
    cache.failThreads(with: nil)
    test.disk.fail(.write, .noSpace)
    await #expect(throws: (any Error).self) { try await cache.records().reduce(0) { count, _ in count + 1 } }
    test.disk.fail(.write, nil)
    try await cache.flush()
  }

  @Test func withoutAThreadTheNextStoreHasAllWritten() async throws {
    cache.failThreads(with: .resourceTemporarilyUnavailable)
    try await cache.store(payload(10), for: "a")
    #expect(try await cache.load("a") != nil)
    cache.failThreads(with: nil)
    #expect(try onDisk("a") == nil)
    try await cache.store(payload(10), for: "b")
    try await until { try onDisk("a") != nil && onDisk("b") != nil }
  }

  @Test func whatWouldBeRefusedIsRefusedAtOnce() async throws {
    let error = await #expect(throws: BlobStoreError.self) { try await cache.store(payload(1), for: "") }
    #expect(error?.code == .invalidKey)
    await #expect(throws: BlobStoreError.self) { try await cache.store(payload(1), for: "a", ttl: .zero) }
  }

  @Test func enumerationsSeeWhatIsStaged() async throws {
    try await cache.store(payload(10), for: "a")
    #expect(try await cache.usage().records == 1)
    try await cache.store(payload(10), for: "b")
    #expect(try await cache.records().reduce(0) { count, _ in count + 1 } == 2)
    try await cache.store(payload(10), for: "ab")
    #expect(try await cache.load(prefix: "ab") { $0.first } != nil)
  }

  @Test func aCacheThatIsLetGoLosesNothing() async throws {
    let test = try TestCache()
    do {
      var writeBehind = BlobCache.WriteBehind()
      writeBehind.delay = .seconds(1000)
      let cache = try test.cache { $0.writing = .behind(writeBehind) }
      for number in 0..<50 { try await cache.store(payload(10), for: BlobKey("key \(number)")) }
    }
    try await until { try test.otherStore().usage().records == 50 }
  }

  @Test func manyWritersAndReadersAgree() async throws {
    let test = try TestCache()
    let cache = try test.cache { $0.writing = .behind(BlobCache.WriteBehind()) }
    try await withThrowingTaskGroup { group in
      for writer in 0..<8 {
        group.addTask {
          let key = BlobKey("key \(writer)")
          for seed in UInt64(1)...100 {
            try await cache.store(payload(50, seed), for: key)
            #expect(try await cache.load(key)?.payload == payload(50, seed))
            if seed % 10 == 0 { try await cache.flush(key) }
            if seed % 33 == 0 {
              #expect(try await cache.remove(key) == .done)
              #expect(try await cache.load(key) == nil)
            }
          }
        }
      }
      try await group.waitForAll()
    }
    try await cache.flush()
    let store = try test.otherStore()
    for writer in 0..<8 { #expect(try store.load(BlobKey("key \(writer)"))?.payload == payload(50, 100)) }
  }
}
