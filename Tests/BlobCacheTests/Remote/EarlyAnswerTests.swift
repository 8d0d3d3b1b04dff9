@testable import BlobCache
import BlobRecord
import BlobStore
import Foundation
import TestSupport
import Testing

/// T3c: a load may return the engine's blob before the blob is stored in the directory.
@Suite(.timeLimit(.minutes(30))) struct EarlyAnswerTests {
  let first: TestCache
  let second: TestCache
  let engine = MemoryEngine()
  let gate = Gate()
  let fetch = Production.Name(key: "key", kind: .fetch)

  init() throws { (first, second) = (try TestCache(), try TestCache()) }

  /// Returns a cache whose writes wait for the gate, for an engine that contains a blob.
  private func node(waitingByteLimit: Int = 1 << 20) async throws -> BlobCache {
    try await first.node(engine).store(payload(9), for: "key", extendedData: Data([7]))
    let cache = try second.node(engine) {
      $0.maxConcurrentOperations = 1
      $0.remote?.answersBeforeStoring = true
      $0.remote?.waitingByteLimit = waitingByteLimit
    }
    // The store makes the key's history known without a write.
    try await cache.store(payload(1), for: "other")
    cache.engine.lanes.writes.submit(.high) { [gate] in gate.wait() }
    try await until { cache.engine.lanes.writes.waitingCount == 0 }
    return cache
  }

  /// Operations that wait for the store. Each one returns whether it has found the record.
  enum Look: CaseIterable, Sendable {
    case contains, header, lock, locks, extendedData, setExtendedData, reader

    func found(in cache: BlobCache) async throws -> Bool {
      switch self {
      case .contains: try await cache.contains("key")
      case .header: try await cache.header(for: "key") != nil
      case .lock: try await cache.lock("key") == .done
      case .locks: try await cache.lock(["key"]).allSatisfy { try $0.result.get() == .done }
      case .extendedData: try await cache.extendedData(for: "key") == Data([7])
      case .setExtendedData: try await cache.setExtendedData(Data([1]), for: "key") == .done
      case .reader: try await cache.openReader(for: "key") != nil
      }
    }
  }

  @Test(arguments: Look.allCases) func whatLooksAtTheRecordWaits(look: Look) async throws {
    let cache = try await node()
    // Each load returns a blob without waiting.
    for _ in 0..<3 { #expect(try await cache.load("key")?.payload == payload(9)) }
    let looking = Task { try await look.found(in: cache) }
    try await until { cache.engine.productions.waiterCount(of: fetch) == 1 }
    gate.open()
    #expect(try await looking.value)
    #expect(engine.requests.filter { $0 == .get("test/v1/ke/key") }.count == 1)
  }

  @Test func whatIsRemovedMeanwhileIsNotStored() async throws {
    let cache = try await node()
    _ = try await cache.load("key")
    _ = try await cache.remove("key")
    gate.open()
    try await until { cache.engine.productions.count == 0 }
    #expect(try await !cache.contains("key"))
  }

  @Test func aLookThatIsGivenUpLeavesTheStore() async throws {
    let cache = try await node()
    _ = try await cache.load("key")
    let looking = Task { try await cache.contains("key") }
    try await until { cache.engine.productions.waiterCount(of: fetch) == 1 }
    looking.cancel()
    await #expect(throws: CancellationError.self) { try await looking.value }
    gate.open()
    try await until { cache.engine.productions.count == 0 }
    #expect(try await cache.contains("key"))
  }

  @Test func loadsBeyondTheLimitWaitForTheirStore() async throws {
    let cache = try await node(waitingByteLimit: 8)
    let load = Task { try await cache.load("key")?.payload }
    try await until { cache.engine.lanes.writes.waitingCount == 1 }
    #expect(cache.engine.productions.waiterCount(of: fetch) == 1)
    gate.open()
    #expect(try await load.value == payload(9))
  }
}
