import BlobRecord
import BlobStore
import Foundation
import Posix
import Synchronization
import SystemPackage
import TestSupport
import Testing

/// Spec/ControlFile.md, "Marks": header changes concurrent with collections, at each system call of either.
@Suite(.timeLimit(.minutes(30))) struct MarkRaceTests {
  /// An upper bound of the system calls of any of these operations.
  private static let mostCalls = 120

  /// Returns caches for one run each, whose last changes are old enough for marks.
  private func settledCaches(_ change: HeaderChangeScene? = nil) throws -> [Cache] {
    let caches = try (0..<Self.mostCalls).map { _ in
      let cache = try Cache()
      try (change ?? .unlock).prepare(cache)
      return cache
    }
    SystemClock.sleep(microseconds: 150_000)
    return caches
  }

  /// Performs an action before one call of each run, starting with the first call, until a run has no further call.
  private func atEachCall(
    _ caches: [Cache], _ run: (Cache, Files, _ isOver: @escaping @Sendable () -> Bool) throws -> Void,
    _ action: @escaping @Sendable (Cache) throws -> Bool
  ) throws {
    for (number, cache) in caches.enumerated() {
      let calls = Atomic(0)
      let isDone = Atomic(false)
      let files = Files { _, _ in
        guard calls.add(1, ordering: .relaxed).newValue > number, !isDone.load(ordering: .relaxed) else { return nil }
        // The action makes calls in other files. If it has to wait, it is repeated before the next call.
        #expect(throws: Never.self, "call \(number)") {
          if try action(cache) { isDone.store(true, ordering: .relaxed) }
        }
        return nil
      }
      try run(cache, files) { isDone.load(ordering: .relaxed) }
      guard isDone.load(ordering: .relaxed) else {
        #expect(number > 5)
        return
      }
    }
    Issue.record("more calls than caches")
  }

  /// C15: a collection between the calls of a change.
  @Test(arguments: HeaderChangeScene.allCases) func aCollectionDuringAChangeHidesNothing(
    change: HeaderChangeScene
  ) throws {
    try atEachCall(try settledCaches(change)) { cache, files, isOver in
      change.setClock(of: cache)
      try change.make(in: cache.store(files: files))
      guard isOver() else { return }
      change.expire(in: cache)
      #expect(try cache.store().collect().expired == 1)
    } _: { cache in
      // The change holds its stripe, and the collection needs all stripes briefly.
      try cache.store { $0.access.lockTimeout = .zero }.collect()
      return true
    }
  }

  /// C15: a change between the calls of a collection.
  @Test(arguments: HeaderChangeScene.allCases) func aChangeDuringACollectionHidesNothing(
    change: HeaderChangeScene
  ) throws {
    try atEachCall(try settledCaches(change)) { cache, files, isOver in
      change.setClock(of: cache)
      try cache.store(files: files).collect()
      guard isOver() else { return }
      change.expire(in: cache)
      #expect(try cache.store().collect().expired == 1)
    } _: { cache in
      do {
        try change.make(in: cache.store { $0.access.lockTimeout = .zero })
        return true
      } catch let error as BlobStoreError where error.code == .busy {
        // The collection holds all stripes.
        return false
      }
    }
  }

  /// C15: an exclusive store holds no stripes and tracks its own changes.
  @Test(arguments: HeaderChangeScene.allCases) func anExclusiveStoreHidesNothing(change: HeaderChangeScene) throws {
    let cache = try Cache()
    try change.prepare(cache)
    SystemClock.sleep(microseconds: 150_000)
    change.setClock(of: cache)
    let trace = CallTrace()
    let store = try cache.store(files: trace.files) { $0.access.sharing = .exclusive }
    trace.onCall { call, path in
      guard call == .write, path.string.hasSuffix("/key") else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) { try store.collect() }
      return nil
    }
    try change.make(in: store)
    change.expire(in: cache)
    #expect(try store.collect().expired == 1)
    // The next collection marks the subdirectory.
    SystemClock.sleep(microseconds: 150_000)
    try store.collect()
    _ = trace.take()
    try store.collect()
    #expect(!trace.take().contains { $0.path.hasSuffix("/kept") })
  }

  /// C15, C19: a mark is invalid from the start of its walk, so the next pass does the work of a stopped one.
  @Test func aPassThatIsStoppedHidesNothing() throws {
    let caches = try settledCaches()
    for cache in caches {
      try cache.store().unlock("key")
      try cache.store().collect()
      cache.clock.advance(by: 101)
    }
    try atEachCall(caches) { cache, files, isOver in
      var options = BlobStore.CollectionOptions()
      options.isStopped = isOver
      let report = try cache.store(files: files).collect(options)
      guard isOver() else { return }
      #expect(try report.expired + cache.store().collect().expired == 1)
      #expect(try cache.files() == ["ke/kept"])
    } _: { _ in
      true
    }
  }
}

/// A header change that makes the record expire earlier, and the scene for it.
enum HeaderChangeScene: CaseIterable {
  case unlock, touchBack

  /// Stores the record that expires and one that does not.
  func prepare(_ cache: Cache) throws {
    let store = try cache.store()
    try store.store(
      payload(10), for: "key", ttl: self == .unlock ? .seconds(100) : nil, locks: self == .unlock ? .one : .none)
    try store.store(payload(10), for: "kept", ttl: .seconds(100_000))
  }

  func setClock(of cache: Cache) {
    if self == .touchBack { cache.clock.advance(by: -300) }
  }

  func make(in store: BlobStore) throws(BlobStoreError) {
    switch self {
    case .unlock: try store.unlock("key")
    case .touchBack: try store.touch("key")
    }
  }

  /// Writes only the header to disk, without updating the marks.
  func write(in cache: Cache) throws {
    try cache.changeHeader("ke/key") { header in
      switch self {
      case .unlock: header.refCount = 0
      case .touchBack: header.updateTime = UInt64(cache.now)
      }
    }
  }

  /// Advances the clock to a time at which the record has expired by its new header, but not by its old one.
  func expire(in cache: Cache) { cache.clock.advance(by: self == .unlock ? 101 : 601) }
}
