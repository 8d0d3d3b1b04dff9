@testable import BlobCache
import BlobStore
import Foundation
import Testing

@Suite struct KeyChangeTests {
  private let test: TestCache
  private let cache: BlobCache

  init() throws {
    test = try TestCache()
    // The cache writes staged blobs only when it is flushed.
    cache = try test.cache {
      var writeBehind = BlobCache.WriteBehind()
      writeBehind.delay = .seconds(100_000)
      $0.writing = .behind(writeBehind)
    }
  }

  private func onDisk() throws -> Data? { try test.otherStore().load("a")?.payload }

  /// Begins a change of the key "a", and finishes or drops it.
  ///
  /// - Returns: A Boolean value that indicates whether a blob was staged.
  private func change(isFinished: Bool, if condition: StoreCondition? = nil) -> Bool {
    let change = KeyChange(of: "a", if: condition, in: cache.engine)
    let wasStaged = change.wasStaged
    if isFinished { change.finish() }
    return wasStaged
  }

  @Test func aFinishedChangeReplacesWhatWasStaged() async throws {
    try await cache.store(payload(10), for: "a")
    #expect(change(isFinished: true))
    #expect(cache.stagedByteCount == 0)
    #expect(try onDisk() == nil)
    #expect(!change(isFinished: true))
  }

  @Test func aDroppedChangeLeavesWhatWasStaged() async throws {
    try await cache.store(payload(10), for: "a")
    let byteCount = cache.stagedByteCount
    #expect(change(isFinished: false))
    #expect(cache.stagedByteCount == byteCount)
    try await cache.flush()
    #expect(try onDisk() == payload(10))
  }

  @Test func aChangeThatJudgesTheRecordFindsWhatWasStagedOnDisk() async throws {
    try await cache.store(payload(10), for: "a")
    #expect(!change(isFinished: true, if: StoreCondition(onRecord: { _ in true })))
    #expect(try onDisk() == payload(10))
  }

  /// A18: a change of the key supersedes its production; the store of the production's own blob does not.
  @Test(arguments: [true, false]) func aChangeSupersedesProductions(isOfProduction: Bool) async throws {
    let name = Production.Name(key: "a", kind: .load)
    let latch = Latch()
    let load = Task { [cache] in
      try await cache.load("a") {
        await latch.wait()
        return payload(10)
      }
    }
    try await until { cache.engine.productions.isUnderWay(name) }
    let condition = StoreCondition(history: KeyHistory(), isWanted: { true })
    #expect(!change(isFinished: true, if: isOfProduction ? condition : nil))
    #expect(cache.engine.productions.isUnderWay(name) == isOfProduction)
    latch.open()
    #expect(try await load.value.payload == payload(10))
  }
}
