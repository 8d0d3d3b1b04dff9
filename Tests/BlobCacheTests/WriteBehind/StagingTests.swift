@testable import BlobCache
import Foundation
import Posix
import TestSupport
import Testing

/// The memory and the lifetime of staged blobs, and the lifetime of their cache. Spec/Semantics.md, A11 to A14.
@Suite struct StagingTests {
  let test: TestCache

  init() throws { test = try TestCache() }

  /// Returns a cache that writes staged blobs only when it is flushed.
  private func cache(byteLimit: Int = 1 << 20) throws -> BlobCache {
    try test.cache {
      var writeBehind = BlobCache.WriteBehind()
      writeBehind.delay = .seconds(100_000)
      writeBehind.byteLimit = byteLimit
      $0.writing = .behind(writeBehind)
      $0.excludesFromBackups = false
    }
  }

  private func onDisk(_ key: BlobKey) throws -> Data? { try test.otherStore().load(key)?.payload }

  // MARK: - The limit

  @Test func theLimitCountsWhatABlobCostsBesidesItsPayload() async throws {
    let cache = try cache(byteLimit: 10_300)
    for number in 0..<30 { try await cache.store(Data(), for: BlobKey("\(number % 10)\(number / 10)")) }
    #expect(cache.stagedByteCount == 20 * 514)
    #expect(try onDisk("91") == nil)
    #expect(try onDisk("02") == Data())
    let longKey = BlobKey(String(repeating: "k", count: 200))
    try await cache.flush()
    try await cache.store(payload(100), for: longKey)
    #expect(cache.stagedByteCount == 812)
    try await cache.store(payload(10), for: longKey)
    #expect(cache.stagedByteCount == 722)
  }

  @Test(arguments: ["flush", "flushOfOne", "remove", "wipe", "throughStore", "failure", "lock"])
  func whatIsNotStagedAnyMoreCostsNothing(way: String) async throws {
    let cache = try cache()
    for round in 1...3 as ClosedRange<UInt64> {
      try await cache.store(payload(100, round), for: "a")
      try await cache.store(payload(200, round), for: "a")
      try await cache.store(payload(300, round), for: "b")
      #expect(cache.stagedByteCount == 500 + 2 * 513)
      switch way {
      case "flush": try await cache.flush()
      case "flushOfOne":
        try await cache.flush("a")
        #expect(cache.stagedByteCount == 813)
        try await cache.flush("b")
      case "remove":
        try await cache.remove("a")
        try await cache.remove("b")
      case "wipe": try await cache.removeAll(.all)
      case "throughStore":
        for key in ["a", "b"] as [BlobKey] { try await cache.store(payload(5), for: key, locks: .one) }
      case "failure":
        test.disk.fail(.write, .noSpace)
        await expect(.writeFailed) { try await cache.flush() }
        test.disk.fail(.write, nil)
      default:
        try await cache.lock("a")
        try await cache.lock("b")
      }
      #expect(cache.stagedByteCount == 0)
    }
  }

  /// A failed change stages the previous blob again, and counts it once.
  @Test func whatIsStagedAgainIsCountedOnce() async throws {
    let cache = try cache()
    try await cache.store(payload(10), for: "first")
    try await cache.flush()
    try await cache.store(payload(100), for: "a")
    let count = cache.stagedByteCount
    test.disk.fail(.write, .ioError)
    for _ in 0..<3 {
      await #expect(throws: BlobStoreError.self) { try await cache.store(payload(9), for: "a", locks: .one) }
      #expect(cache.stagedByteCount == count)
    }
    test.disk.fail(.write, nil)
    try await cache.flush()
    #expect(try onDisk("a") == payload(100))
    #expect(cache.stagedByteCount == 0)
  }

  // MARK: - Order

  /// A blob that is staged while its key is being written waits for that write, and blocks no other key.
  @Test func whatIsStagedWhileItsKeyIsWrittenIsWrittenAfterwards() async throws {
    let cache = try test.cache {
      $0.writing = .behind(.init())
      $0.maxConcurrentOperations = 2
      $0.excludesFromBackups = false
    }
    try await cache.store(payload(1), for: "first")
    try await cache.flush()
    test.disk.hold(.publication)
    try await cache.store(payload(10, 1), for: "a")
    try await test.disk.waitForHeld(1)
    for seed in 2...5 as ClosedRange<UInt64> {
      try await cache.store(payload(10, seed), for: "a")
      try await cache.store(payload(10, seed), for: BlobKey("other \(seed)"))
    }
    // The other writer skips the key that is being written.
    try await test.disk.waitForHeld(2)
    #expect(try await cache.load("a")?.payload == payload(10, 5))
    test.disk.letGo()
    try await until { try onDisk("a") == payload(10, 5) }
    for seed in 2...5 as ClosedRange<UInt64> {
      try await until { try onDisk(BlobKey("other \(seed)")) == payload(10, seed) }
    }
    try await until { cache.stagedByteCount == 0 }
  }

  // MARK: - Ends

  @Test(arguments: [true, false]) func aDelayKeepsNoCacheAlive(isClosed: Bool) async throws {
    weak var store: BlobStore?
    do {
      let cache = try cache()
      try await cache.store(payload(10), for: "a")
      store = cache.store
      if isClosed { try await cache.close() }
    }
    try await until { store == nil }
    #expect(try onDisk("a") == payload(10))
  }

  /// A14: a blob that is staged after the last write of a closing cache would never be written.
  @Test func nothingIsStagedOnceAllIsWritten() async throws {
    let cache = try cache()
    let staging = try #require(cache.engine.staging)
    let request = StoreRequest(payload: payload(10))
    let blob = request.blob("a", try cache.store.prospectiveHeader(for: "a", payload(10).bytes, nil, ttl: nil))
    #expect(staging.stage(blob, request))
    #expect(!staging.closeIfEmpty())
    try await cache.close()
    #expect(!staging.stage(blob, request))
    #expect(cache.stagedByteCount == 0)
    #expect(try onDisk("a") == payload(10))
  }

  // MARK: - Headers

  /// Semantics.md, A11: a staged blob has the header that its record will have.
  @Test(arguments: [BlobStore.RecordFormat.checksummed, .reference])
  func theHeaderOfWhatIsStagedIsThatOfTheRecord(format: BlobStore.RecordFormat) async throws {
    let cache = try test.cache {
      var writeBehind = BlobCache.WriteBehind()
      writeBehind.delay = .seconds(100_000)
      $0.writing = .behind(writeBehind)
      $0.store.format = format
    }
    for (key, ttl) in [("a", nil), ("b", .seconds(100))] as [(BlobKey, Duration?)] {
      try await cache.store(payload(1000), for: key, ttl: ttl)
      let staged = try #require(try await cache.header(for: key))
      #expect(try onDisk(key) == nil)
      #expect(try await cache.load(key)?.header == staged)
      try await cache.flush(key)
      let written = try #require(try test.otherStore().header(for: key))
      #expect(staged == written)
      #expect((staged.payloadChecksum != nil) == (format == .checksummed))
    }
  }
}
