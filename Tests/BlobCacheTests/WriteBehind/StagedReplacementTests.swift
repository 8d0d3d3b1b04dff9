import BlobCache
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Changes that supersede a staged blob, and the staged blob after such a change has failed.
@Suite(.timeLimit(.minutes(30))) struct StagedReplacementTests {
  let test: TestCache
  let cache: BlobCache

  /// Creates a cache that writes staged blobs only when it is flushed.
  init() throws {
    test = try TestCache()
    var writeBehind = BlobCache.WriteBehind()
    writeBehind.delay = .seconds(1000)
    cache = try test.cache { [writeBehind] in
      $0.writing = .behind(writeBehind)
      // Without recycling, a removal is one unlink.
      $0.store.recycling = .off
    }
  }

  private func onDisk(_ key: BlobKey) throws -> Data? { try test.otherStore().load(key)?.payload }

  /// Stores a blob on disk, and stages a newer one of the same key.
  private func stageOver(_ key: BlobKey, locks: BlobStore.LockPolicy = .none) async throws {
    try await cache.store(payload(10, 1), for: key, locks: locks)
    try await cache.flush()
    try await cache.store(payload(10, 2), for: key)
  }

  private func expectStaged(_ key: BlobKey, seed: UInt64 = 2) async throws {
    #expect(try await cache.load(key)?.payload == payload(10, seed))
    try await cache.flush()
    #expect(try onDisk(key) == payload(10, seed))
  }

  @Test func aRemovalTakesBoth() async throws {
    try await stageOver("a")
    #expect(try await cache.remove("a") == .done)
    #expect(try await cache.load("a") == nil)
    #expect(try await cache.remove("a") == .notFound)
    try await cache.flush()
    #expect(try onDisk("a") == nil)
  }

  @Test func aRemovalThatFailsLeavesIt() async throws {
    try await stageOver("a")
    test.disk.fail(.unlink, .ioError)
    await #expect(throws: BlobStoreError.self) { try await cache.remove("a") }
    test.disk.fail(.unlink, nil)
    try await expectStaged("a")
  }

  enum JudgedChange: CaseIterable { case store, remove, commit }

  /// A conditional change sees the latest staged blob, even a blob that was staged while the change waited.
  @Test(arguments: JudgedChange.allCases) func aJudgedChangeMeetsWhatIsStagedMeanwhile(
    change: JudgedChange
  ) async throws {
    let writer = try await cache.openWriter(for: "a")
    try await writer.append(payload(30, 3))
    try await cache.store(payload(10, 1), for: "a")
    test.disk.hold(.rename)
    test.disk.hold(.linkUnnamed)
    test.disk.hold(.renameNoReplace)
    let changing = Task { [cache] in
      switch change {
      case .store:
        try await cache.store(payload(30, 3), for: "a", ttl: nil, locks: .none, extendedData: nil) {
          $0?.payloadSize == 20
        } != nil
      case .remove: try await cache.remove("a") { $0?.payloadSize == 20 } == .done
      case .commit: try await writer.commit { $0?.payloadSize == 20 } != nil
      }
    }
    try await test.disk.waitForHeld(1)
    try await cache.store(payload(20, 2), for: "a")
    test.disk.letGo()
    #expect(try await changing.value)
    try await cache.flush()
    #expect(try onDisk("a") == (change == .remove ? nil : payload(30, 3)))
  }

  @Test func aWipeThatFailsLeavesIt() async throws {
    try await stageOver("a")
    test.disk.fail(.unlink, .ioError)
    await #expect(throws: BlobStoreError.self) { try await cache.removeAll(.all) }
    test.disk.fail(.unlink, nil)
    try await expectStaged("a")
  }

  @Test func aWipeThatIsStoppedLeavesIt() async throws {
    try await stageOver("a")
    var options = BlobStore.RemovalOptions()
    options.isStopped = { true }
    #expect(try await cache.removeAll(.all, options).wasStopped)
    try await expectStaged("a")
  }

  /// A blob that is staged during a wipe is written, whether the wipe completes or not.
  @Test(arguments: [true, false]) func aNewerBlobStagedDuringAWipeStays(isStopped: Bool) async throws {
    try await stageOver("a")
    var options = BlobStore.RemovalOptions()
    options.isStopped = { [cache] in
      #expect(throws: Never.self) { try waiting { try await cache.store(payload(10, 3), for: "a") } }
      return isStopped
    }
    #expect(try await cache.removeAll(.all, options).wasStopped == isStopped)
    try await expectStaged("a", seed: 3)
  }

  @Test func aWipeTakesAllThatIsStaged() async throws {
    for number in 0..<10 { try await stageOver(BlobKey("key \(number)")) }
    for number in 0..<10 { try await cache.store(payload(5), for: BlobKey("staged \(number)")) }
    try await cache.removeAll(.all)
    #expect(try await cache.load("staged 3") == nil)
    #expect(try await cache.usage().records == 0)
  }

  /// The staged blob has no locks; the locks on disk belong to the previous record.
  @Test(arguments: [false, true]) func theLocksKeptAreThoseOfTheStagedBlob(isLocked: Bool) async throws {
    try await stageOver("a", locks: .one)
    try await cache.store(payload(10, 3), for: "a", locks: isLocked ? .keepOrOne : .keep)
    #expect(try test.otherStore().header(for: "a")?.refCount == (isLocked ? 1 : 0))
    try await expectStaged("a", seed: 3)
  }
}
