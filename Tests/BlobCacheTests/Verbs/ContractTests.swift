import BlobCache
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Each operation has the same meaning as for the store, whether memory or the disk answers.
@Suite struct ContractTests {
  let test: TestCache
  let cache: BlobCache

  init() throws {
    test = try TestCache()
    cache = try test.cache()
  }

  @Test func whatIsStoredIsLoadedFromMemoryAndFromDisk() async throws {
    try await cache.store(payload(100), for: "a", ttl: .seconds(60))
    #expect(try await cache.load("a")?.payload == payload(100))
    cache.removeAllFromMemory()
    #expect(cache.blobInMemory(for: "a") == nil)
    let blob = try #require(try await cache.load("a"))
    #expect(blob.payload == payload(100))
    #expect(blob.header.ttl == 60)
    #expect(cache.blobInMemory(for: "a")?.payload == payload(100))
    #expect(try await cache["a"]?.payload == payload(100))
  }

  @Test func theAbsentIsNil() async throws {
    #expect(try await cache.load("a") == nil)
    #expect(try await !cache.contains("a"))
    #expect(try await cache.header(for: "a") == nil)
    #expect(try await cache.remove("a") == .notFound)
    #expect(try await cache.touch("a") == .notFound)
    #expect(try await cache.lock("a") == .notFound)
    #expect(try await cache.unlock("a") == .notFound)
  }

  @Test func keysAreTheirBytes() async throws {
    try await cache.store(payload(1), for: "é")
    #expect(try await cache.load("e\u{301}") == nil)
    #expect(try await cache.load("é") != nil)
  }

  @Test func theStoresErrorsComeThrough() async throws {
    let error = await #expect(throws: BlobStoreError.self) { try await cache.load("") }
    #expect(error?.code == .invalidKey)
    let ttl = await #expect(throws: BlobStoreError.self) { try await cache.store(Data(), for: "a", ttl: .zero) }
    #expect(ttl?.code == .invalidTimeToLive)
  }

  @Test func locksAreSeenAtOnce() async throws {
    try await cache.store(payload(1), for: "a")
    #expect(try await cache.load("a")?.header.isLocked == false)
    #expect(try await cache.lock("a") == .done)
    #expect(try await cache.load("a")?.header.refCount == 1)
    #expect(try await cache.unlock("a") == .done)
    #expect(try await cache.unlock("a") == .notLocked)
    #expect(try await cache.load("a")?.header.refCount == 0)
  }

  @Test func manyKeysAnswerInOrder() async throws {
    for key in ["a", "c"] as [BlobKey] { try await cache.store(payload(10), for: key) }
    cache.removeFromMemory("c")
    let keys: [BlobKey] = ["a", "b", "", "c"]
    let loads = try await cache.load(keys)
    #expect(loads.map(\.key) == keys)
    #expect(loads.map { (try? $0.result.get())?.payload.count } == [10, nil, nil, 10])
    #expect(throws: BlobStoreError.self) { try loads[2].result.get() }
    func outcomes(_ results: [BlobStore.KeyResult]) -> [BlobStore.Outcome?] { results.map { try? $0.result.get() } }
    #expect(try await outcomes(cache.lock(keys)) == [.done, .notFound, nil, .done])
    #expect(try await outcomes(cache.touch(keys)) == [.done, .notFound, nil, .done])
    #expect(try await outcomes(cache.unlock(keys)) == [.done, .notFound, nil, .done])
    #expect(try await outcomes(cache.remove(keys)) == [.done, .notFound, nil, .done])
  }

  @Test func recordsAreEnumeratedInBatches() async throws {
    let keys = (0..<200).map { BlobKey("key \($0)") }
    for key in keys { try await cache.store(payload(1), for: key) }
    var found: Set<BlobKey> = []
    for try await entry in cache.records(prefix: "key 1") { found.insert(try #require(entry.key)) }
    #expect(found == Set(keys.filter { $0.hasPrefix("key 1") }))
    #expect(try await cache.records().reduce(0) { count, _ in count + 1 } == 200)
    #expect(try await cache.usage().records == 200)
  }

  @Test func aPrefixIsChosenFrom() async throws {
    for key in ["ab1", "ab2", "b"] as [BlobKey] { try await cache.store(payload(3), for: key) }
    let blob = try await cache.load(prefix: "ab") { $0.first { $0 == "ab2" } }
    #expect(blob?.key == "ab2")
    #expect(try await cache.load(prefix: "zz") { $0.first } == nil)
  }

  @Test func aFileIsStored() async throws {
    try payload(5000).write(to: test.outside.url("file"))
    let byteCount = try await cache.store(contentsOf: test.outside.path.appending("file"), for: "a")
    #expect(byteCount == 5000)
    #expect(try await cache.load("a")?.payload == payload(5000))
  }

  @Test func wipesEmptyMemoryToo() async throws {
    try await cache.store(payload(1), for: "a")
    try await cache.store(payload(1), for: "b", locks: .one)
    try await cache.removeAll(.unlocked)
    #expect(try await cache.load("a") == nil)
    #expect(try await cache.load("b") != nil)
    try await cache.removeAll(.all)
    #expect(try await cache.load("b") == nil)
  }

  /// Files of removed blobs wait to be overwritten if files are recycled, unless the blobs are purged.
  @Test func purgedBytesAreGone() async throws {
    func waiting() -> Int { (try? FileManager.default.contentsOfDirectory(atPath: test.path(".recycled")).count) ?? 0 }
    func fill() async throws {
      for key: BlobKey in ["a", "b", "c"] { try await cache.store(payload(100), for: key) }
      try await cache.remove("c")
      #expect((waiting() > 0) == WriteLease.isAvailable)
    }
    try await fill()
    #expect(try await cache.remove("a", purging: true) == .done)
    #expect(waiting() == 0)
    try await fill()
    #expect(try await cache.remove(["a", "b"], purging: true).map { try $0.result.get() } == [.done, .done])
    #expect(waiting() == 0)
  }

  @Test func theVerbsAnswerTheirOutcomes() async throws {
    try await cache.store(payload(7), for: "a")
    #expect(try await cache.load("a")?.payload == payload(7))
    #expect(try await cache["a"] != nil)
    #expect(try await cache.contains("a"))
    #expect(try await cache.lock("a") == .done)
    #expect(try await cache.header(for: "a")?.refCount == 1)
    #expect(try await cache.unlock("a", force: true) == .done)
    #expect(try await cache.touch("a") == .done)
    #expect(try await cache.load(["a", "b"]).count == 2)
    #expect(try await cache.collect().examined == 1)
    #expect(try await cache.remove("a") == .done)
    #expect(try await cache.removeAll(.all).files == 0)
  }

  /// The caller runs on the main actor, which only a suspension would leave.
  @MainActor @Test func aHitInMemoryStaysOnTheCallersThread() async throws {
    try await cache.store(payload(1), for: "a")
    let before = pthread_self()
    _ = try await cache.load("a")
    #expect(pthread_equal(before, pthread_self()) != 0)
    let calls = test.disk.callCount
    for _ in 0..<100 { _ = try await cache.load("a") }
    #expect(test.disk.callCount == calls)
  }

  @Test func withoutMemoryTheDiskAnswers() async throws {
    let test = try TestCache()
    let cache = try test.cache { $0.memory = nil }
    try await cache.store(payload(9), for: "a")
    #expect(cache.blobInMemory(for: "a") == nil)
    #expect(try await cache.load("a")?.payload == payload(9))
    #expect(cache.memoryCount == 0)
  }
}
