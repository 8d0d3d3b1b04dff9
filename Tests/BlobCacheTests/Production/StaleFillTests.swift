import BlobCache
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

private struct Refusal: Error {}

/// A18: a produced blob does not supersede changes made since its production began.
@Suite(.timeLimit(.minutes(30))) struct StaleFillTests {
  /// A change of the key "a" during a production.
  enum Change: String, CaseIterable {
    case store, storeOfFile, lockedStore, remove, removeMany, purge, removeAll
    case removeUnlocked, othersStore, othersRemove, othersRemoveMany, othersRemoveAll, othersRemoveUnlocked

    var stores: Bool { [.store, .storeOfFile, .lockedStore, .othersStore].contains(self) }
    var isOthers: Bool { rawValue.hasPrefix("others") }
  }

  /// The configuration of a cache, which decides how it detects changes.
  enum Kind: String, CaseIterable {
    case shared, exclusive, withoutMemory, writtenBehind, withoutGenerations, exclusiveWithoutGenerations
    case acrossProcesses

    var hasGenerations: Bool { self != .withoutGenerations && self != .exclusiveWithoutGenerations }
    var isExclusive: Bool { self == .exclusive || self == .exclusiveWithoutGenerations }
    var options: ProductionOptions { ProductionOptions(acrossProcesses: self == .acrossProcesses) }
  }

  private static let (old, new) = (payload(10, 1), payload(10, 2))

  private func cache(_ test: TestCache, _ kind: Kind) throws -> BlobCache {
    // If files cannot be mapped, no process has generations.
    if !kind.hasGenerations { test.disk.fail(.map, .operationNotSupportedByDevice) }
    return try test.cache {
      if kind.isExclusive { $0.store.access.sharing = .exclusive }
      if kind == .withoutMemory { $0.memory = nil }
      if kind == .writtenBehind { $0.writing = .behind(BlobCache.WriteBehind()) }
    }
  }

  private func make(_ change: Change, _ cache: BlobCache, _ test: TestCache) async throws {
    switch change {
    case .store: try await cache.store(Self.new, for: "a")
    case .storeOfFile:
      let file = test.outside.url("file")
      try Self.new.write(to: file)
      try await cache.store(contentsOf: FilePath(file.path), for: "a")
    case .lockedStore: try await cache.store(Self.new, for: "a", locks: .one)
    case .remove: try await cache.remove("a")
    case .removeMany: _ = try await cache.remove(["b", "a"])
    case .purge: try await cache.remove("a", purging: true)
    case .removeAll: try await cache.removeAll(.all)
    case .removeUnlocked: try await cache.removeAll(.unlocked)
    case .othersStore: try test.otherStore().store(Self.new, for: "a")
    case .othersRemove: try test.otherStore().remove("a")
    case .othersRemoveAll: try test.otherStore().removeAll(.all)
    case .othersRemoveUnlocked: try test.otherStore().removeAll(.unlocked)
    case .othersRemoveMany: for result in try test.otherStore().remove(["a"]) { _ = try result.result.get() }
    }
  }

  /// Checks the blob in memory and on disk after the change.
  private func expectWhatChangeLeft(
    _ change: Change, _ cache: BlobCache, _ test: TestCache, sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    let expected = change.stores ? Self.new : nil
    #expect(try await cache.load("a")?.payload == expected, sourceLocation: sourceLocation)
    try await cache.flush()
    cache.removeAllFromMemory()
    #expect(try await cache.load("a")?.payload == expected, sourceLocation: sourceLocation)
    #expect(try test.otherStore().load("a")?.payload == expected, sourceLocation: sourceLocation)
  }

  private static let cases = Kind.allCases.flatMap { kind in
    Change.allCases.compactMap { change in
      // Without sharing, changes of other processes do not occur or are not detected.
      change.isOthers && (kind.isExclusive || !kind.hasGenerations) ? nil : (kind, change)
    }
  }

  /// The change is made while the producer runs, in a directory that does not exist yet or is already a cache.
  @Test(arguments: cases, [true, false])
  func whatIsProducedMeanwhileIsAnsweredAndNotStored(_ pair: (kind: Kind, change: Change), isNew: Bool) async throws {
    let test = try TestCache()
    let cache = try cache(test, pair.kind)
    if !isNew { try await cache.store(payload(1), for: "other") }
    let (began, latch) = (Latch(), Latch())
    let production = Task {
      try await cache.load("a", options: pair.kind.options) {
        began.open()
        await latch.wait()
        return Self.old
      }
    }
    await began.wait()
    try await make(pair.change, cache, test)
    latch.open()
    #expect(try await production.value.payload == Self.old)
    try await expectWhatChangeLeft(pair.change, cache, test)
    #expect(cache.productionCount == 0)
  }

  /// The change is made while the production is still looking for the key on disk.
  @Test(arguments: Kind.allCases, [Change.othersStore, .othersRemove])
  func whatComesBeforeTheProducerBeginsSupersedesNothing(_ kind: Kind, _ change: Change) async throws {
    let test = try TestCache()
    let cache = try cache(test, kind)
    try await cache.store(payload(1), for: "other")
    try await cache.flush()
    // This holds the call by which a load opens a file, but no calls of the other store.
    test.disk.hold(.openBeneath)
    let production = Task { try await cache.load("a", options: kind.options) { Self.old } }
    try await test.disk.waitForHeld(1)
    try await make(change, cache, test)
    test.disk.letGo()
    // The load finds the other store's record.
    let answer = try await production.value.payload
    #expect(answer == (change.stores ? Self.new : Self.old))
    try await cache.flush()
    #expect(try test.otherStore().load("a")?.payload == answer)
  }

  /// The change is made while the produced blob is being written to a file that has no name yet.
  @Test(arguments: cases.filter { $0.0 != .writtenBehind })
  func soItIsWhereItIsBeingWritten(_ pair: (kind: Kind, change: Change)) async throws {
    let test = try TestCache()
    let cache = try cache(test, pair.kind)
    try await cache.store(payload(1), for: "other")
    test.disk.hold(SystemCall.creation)
    let production = Task { try await cache.load("a", options: pair.kind.options) { Self.old } }
    try await test.disk.waitForHeld(1)
    if pair.change.stores, !pair.change.isOthers {
      // The store writes a file of its own, so it is held too.
      let store = Task { try await make(pair.change, cache, test) }
      try await test.disk.waitForHeld(2)
      test.disk.letGo()
      try await store.value
    } else {
      try await make(pair.change, cache, test)
      test.disk.letGo()
    }
    #expect(try await production.value.payload == Self.old)
    try await expectWhatChangeLeft(pair.change, cache, test)
  }

  /// A wipe that finds no record waits for no stripe, and can end before the record exists.
  @Test(arguments: Kind.allCases.filter { $0 != .writtenBehind && $0.hasGenerations }, [false, true])
  func soItIsWhereItIsJustTakingItsPlace(_ kind: Kind, isOthers: Bool) async throws {
    guard !isOthers || !kind.isExclusive else { return }
    let test = try TestCache()
    let cache = try cache(test, kind)
    try await cache.store(payload(1), for: "other")
    test.disk.hold(SystemCall.publication)
    let production = Task { try await cache.load("a", options: kind.options) { Self.old } }
    try await test.disk.waitForHeld(1)
    try await make(isOthers ? .othersRemoveAll : .removeAll, cache, test)
    test.disk.letGo()
    #expect(try await production.value.payload == Self.old)
    try await expectWhatChangeLeft(.removeAll, cache, test)
  }

  /// The produced blob is staged when another process changes the key.
  @Test(arguments: [Change.othersStore, .othersRemove, .othersRemoveAll]) func soItIsWhereItIsStaged(
    _ change: Change
  ) async throws {
    let test = try TestCache()
    let cache = try test.cache {
      $0.writing = .behind(BlobCache.WriteBehind())
      $0.maxConcurrentOperations = 1
    }
    try await cache.store(payload(1), for: "other")
    try await cache.flush()
    test.disk.hold(SystemCall.creation)
    #expect(try await cache.load("a") { Self.old }.payload == Self.old)
    try await test.disk.waitForHeld(1)
    try await make(change, cache, test)
    test.disk.letGo()
    try await cache.flush()
    try await expectWhatChangeLeft(change, cache, test)
  }

  @Test func whatIsStagedOfAnEarlierStoreIsNoLaterChange() async throws {
    let test = try TestCache()
    let cache = try test.cache {
      var writeBehind = BlobCache.WriteBehind()
      writeBehind.delay = .seconds(1000)
      $0.writing = .behind(writeBehind)
    }
    try await cache.store(Data("none".utf8), for: "a")
    #expect(try await cache.values(of: [Int].self).value(for: "a") { [1] } == [1])
    try await cache.flush()
    #expect(try test.otherStore().load("a")?.payload == Data("[1]".utf8))
  }

  @Test(arguments: Kind.allCases) func whatChangesNothingDoesNotKeepItFromBeingStored(_ kind: Kind) async throws {
    let test = try TestCache()
    let cache = try cache(test, kind)
    let (began, latch) = (Latch(), Latch())
    let production = Task {
      try await cache.load("a", options: kind.options) {
        began.open()
        await latch.wait()
        return Self.old
      }
    }
    await began.wait()
    try await cache.store(payload(5), for: "b")
    try await cache.remove("b")
    try await cache.touch("a")
    try await cache.lock("a")
    try await cache.unlock("a")
    #expect(try await cache.load("a") == nil)
    latch.open()
    #expect(try await production.value.payload == Self.old)
    try await cache.flush()
    #expect(try test.otherStore().load("a")?.payload == Self.old)
  }

  @Test(arguments: cases.filter { !$0.1.isOthers && !$0.1.stores })
  func whoAsksAfterARemovalBeginsAnew(_ pair: (kind: Kind, change: Change)) async throws {
    let test = try TestCache()
    let cache = try cache(test, pair.kind)
    let (began, latch) = (Latch(), Latch())
    let first = Task {
      try await cache.load("a") {
        began.open()
        await latch.wait()
        return Self.old
      }
    }
    await began.wait()
    let second = Task { try await cache.load("a") { throw CancellationError() } }
    try await until { cache.waiterCount(of: "a") == 2 }
    try await make(pair.change, cache, test)
    // Otherwise the next load would wait for a producer that waits for this load.
    try #require(cache.waiterCount(of: "a") == 0)
    #expect(try await cache.load("a") { Self.new }.payload == Self.new)
    latch.open()
    // Loads that started before the change return the old blob.
    #expect(try await first.value.payload == Self.old)
    #expect(try await second.value.payload == Self.old)
    #expect(try await cache.load("a")?.payload == Self.new)
    try await cache.flush()
    #expect(try test.otherStore().load("a")?.payload == Self.new)
  }

  /// The producer of a refresh runs in the background, and no load waits for it.
  @Test(arguments: cases) func soItIsWithWhatIsProducedAnew(_ pair: (kind: Kind, change: Change)) async throws {
    let test = try TestCache()
    let cache = try cache(test, pair.kind)
    var options = pair.kind.options
    (options.ttl, options.refreshesAfter) = (.seconds(600), .seconds(60))
    try await cache.store(payload(10, 3), for: "a", ttl: .seconds(600))
    // A staged blob is stamped when it is written.
    try await cache.flush()
    test.clock.advance(by: 100)
    let (began, latch) = (Latch(), Latch())
    let answer = try await cache.load("a", options: options) {
      began.open()
      await latch.wait()
      return Self.old
    }
    #expect(answer.payload == payload(10, 3))
    await began.wait()
    try await make(pair.change, cache, test)
    latch.open()
    try await until { cache.productionCount == 0 }
    try await expectWhatChangeLeft(pair.change, cache, test)
  }

  @Test(arguments: [Change.othersStore, .othersRemove, .othersRemoveAll])
  func whatIsSupersededIsNotEvenStaged(_ change: Change) async throws {
    let test = try TestCache()
    let cache = try test.cache {
      var writeBehind = BlobCache.WriteBehind()
      writeBehind.delay = .seconds(1000)
      $0.writing = .behind(writeBehind)
    }
    let answer = try await cache.load("a") {
      try await make(change, cache, test)
      return Self.old
    }
    #expect(answer.payload == Self.old)
    #expect(try await cache.load("a")?.payload == (change.stores ? Self.new : nil))
  }

  @Test func theEndOfWhatWasSupersededLeavesTheNewProductionInPlace() async throws {
    let cache = try TestCache().cache()
    let latches = [Latch(), Latch()]
    var loads: [Task<Blob, any Error>] = []
    for (latch, answer) in zip(latches, [Self.old, Self.new]) {
      loads.append(
        Task {
          try await cache.load("a") {
            await latch.wait()
            return answer
          }
        })
      try await until { cache.waiterCount(of: "a") == 1 }
      if loads.count == 1 { try await cache.remove("a") }
    }
    latches[0].open()
    #expect(try await loads[0].value.payload == Self.old)
    // A load that starts now waits for the second producer.
    #expect(cache.waiterCount(of: "a") == 1)
    latches[1].open()
    #expect(try await loads[1].value.payload == Self.new)
    #expect(try await cache.load("a")?.payload == Self.new)
  }

  @Test func aFailureOfWhatWasSupersededIsNotRemembered() async throws {
    let test = try TestCache()
    let cache = try test.cache()
    let (began, latch) = (Latch(), Latch())
    let options = ProductionOptions(remembersFailuresFor: .seconds(1000))
    let production = Task {
      try await cache.load("a", options: options) {
        began.open()
        await latch.wait()
        throw Refusal()
      }
    }
    await began.wait()
    try await cache.remove("a")
    latch.open()
    await #expect(throws: Refusal.self) { try await production.value }
    #expect(try await cache.load("a", options: options) { Self.new }.payload == Self.new)
  }

  /// The control file, whose generations detect the change, exists before the producer begins.
  @Test func aProductionInANewDirectoryIsStored() async throws {
    let test = try TestCache()
    let cache = try test.cache()
    try await withThrowingTaskGroup { group in
      for number in 0..<50 {
        group.addTask { _ = try await cache.load(BlobKey("key \(number)")) { payload(10) } }
      }
      try await group.waitForAll()
    }
    #expect(try test.otherStore().usage().records == 50)
  }
}
