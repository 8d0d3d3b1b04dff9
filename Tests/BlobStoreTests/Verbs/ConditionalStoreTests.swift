import BlobRecord
import BlobStore
import Foundation
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

/// A18: conditional stores, which have an effect only if their key has not changed since a previous point in time.
@Suite struct ConditionalStoreTests {
  /// An operation of another store on the directory.
  enum Change: String, CaseIterable {
    case store, remove, removeAgain, removeAll, removeLocked, removeUnlocked
    case touch, lock, load, otherStore, otherRemove, collect

    var mustTell: Bool { [.store, .remove, .removeAgain, .removeAll, .removeLocked, .removeUnlocked].contains(self) }
  }

  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  private func make(_ change: Change, _ store: BlobStore) throws {
    switch change {
    case .store: try store.store(payload(2), for: "key")
    case .remove: try store.remove("key")
    case .removeAgain:
      try store.remove("key")
      #expect(try store.remove("key") == .notFound)
    case .removeAll: try store.removeAll(.all)
    case .removeLocked: try store.removeAll(.locked)
    case .removeUnlocked: try store.removeAll(.unlocked)
    case .touch: try store.touch("key")
    case .lock: try store.lock("key")
    case .load: _ = try store.load("key")
    case .otherStore: try store.store(payload(2), for: "other")
    case .otherRemove: try store.remove("other")
    case .collect: _ = try store.collect(BlobStore.CollectionOptions())
    }
  }

  private func store(_ byteCount: Int, _ store: BlobStore, if history: KeyHistory) throws -> Bool {
    try store.storeWithReceipt(
      payload(byteCount).bytes, nil, for: "key", ttl: nil, locks: .none,
      if: StoreCondition(history: history) { true }) != nil
  }

  /// The condition is tested without the record's subdirectory, with an empty subdirectory, and with the record.
  @Test(arguments: Change.allCases, 0..<3) func itIsMadeIfNothingHasBefallenItsKey(_ change: Change, stage: Int) throws
  {
    let (store, other) = (try cache.store(), try cache.store())
    if stage > 0 { try store.store(payload(1), for: "key") }
    if stage == 1 { try store.remove("key") }
    let history = try store.firstHistory(of: "key")
    #expect(try store.history(of: "key") == history)
    try make(change, other)
    #expect(try store.history(of: "key") != history || !change.mustTell)
    let before = try other.load("key", touching: false)?.payload
    let isStored = try self.store(9, store, if: history)
    #expect(isStored == !change.mustTell)
    #expect(try other.load("key", touching: false)?.payload == (isStored ? payload(9) : before))
    // The key has not changed since the new history.
    #expect(try self.store(10, store, if: try store.firstHistory(of: "key")))
    #expect(try other.load("key", touching: false)?.payload == payload(10))
  }

  @Test func itIsNotMadeIfNobodyWantsItAnyMore() throws {
    let store = try cache.store(files: trace.files)
    let condition = StoreCondition(history: try store.firstHistory(of: "key")) { false }
    _ = trace.take()
    #expect(
      try store.storeWithReceipt(
        payload(1).bytes, nil, for: "key", ttl: nil, locks: .none, if: condition) == nil)
    #expect(trace.count(SystemCall.publication) == 0)
    #expect(try store.usage().records == 0)
  }

  @Test func thereIsNoHistoryBeforeTheFirstChange() throws {
    let store = try cache.store()
    #expect(try store.history(of: "key") == nil)
    try cache.makeDirectory("")
    #expect(try store.history(of: "key") == nil)
    #expect(try store.firstHistory(of: "key").generation != nil)
    #expect(try store.history(of: "key")?.wipes == 0)
  }

  /// A wipe counts as a change at its beginning and at its end, even if it is stopped or fails.
  @Test(arguments: [BlobStore.RemovalScope.all, .locked, .unlocked]) func aWipeIsCountedTwice(
    _ scope: BlobStore.RemovalScope
  ) throws {
    let store = try cache.store(files: trace.files)
    try store.store(payload(1), for: "key", locks: scope == .locked ? .one : .none)
    let during = try cache.store()
    let wipes = Lock<[Int64?]>([])
    trace.onCall { call, _ in
      if call == .unlink {
        let count = try? during.history(of: "other")?.wipes
        wipes.withLock { $0.append(count) }
      }
      return nil
    }
    try store.removeAll(scope)
    trace.onCall(nil)
    #expect(wipes.withLock { $0.first } == 1)
    #expect(try store.history(of: "other")?.wipes == 2)
    try store.store(payload(1), for: "key", locks: scope == .locked ? .one : .none)
    var options = BlobStore.RemovalOptions()
    options.isStopped = { true }
    #expect(try store.removeAll(scope, options).wasStopped)
    #expect(try store.history(of: "other")?.wipes == 4)
  }

  /// The wipe passes the record's place after the condition was checked and before the record is published.
  @Test(arguments: [BlobStore.RemovalScope.all, .locked, .unlocked], [false, true])
  func aWipeThatBeginsAsTheRecordTakesItsPlaceSupersedesItToo(_ scope: BlobStore.RemovalScope, replaces: Bool) throws {
    // A wipe waits for existing records that it examines.
    guard !replaces || scope == .locked else { return }
    let (store, other) = (try cache.store(files: trace.files), try cache.store())
    try store.store(payload(3), for: "other", locks: scope == .unlocked ? .one : .none)
    try store.collect()
    let before = try #require(try store.usageEstimate())
    if replaces { try store.store(payload(1), for: "key") }
    let history = try store.firstHistory(of: "key")
    let trace = trace
    trace.onCall { call, _ in
      guard call == SystemCall.publication else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) { try other.removeAll(scope) }
      return nil
    }
    #expect(try !self.store(9, store, if: history))
    #expect(try other.load("key") == nil)
    #expect(try other.history(of: "key")?.generation?.isMultiple(of: 2) == true)
    let usage = try #require(try other.usageEstimate())
    #expect(usage.records == (scope == .all ? 0 : before.records))
    #expect(usage.bytes == (scope == .all ? 0 : before.bytes))
    #expect(try self.store(10, store, if: try store.firstHistory(of: "key")))
  }

  /// The record is published in a pack, and removed from it for the wipe.
  @Test func aWipeThatBeginsAsTheRecordIsPackedSupersedesItToo() throws {
    let pack: (inout BlobStore.Configuration) -> Void = { $0.packing = .upTo(8192) }
    let (store, other) = (try cache.store(files: trace.files, pack), try cache.store(pack))
    try store.store(payload(3), for: "other")
    let history = try store.firstHistory(of: "key")
    try store.collect()
    let before = try #require(try store.usageEstimate())
    let (trace, wipes) = (trace, CallCount())
    trace.onCall { call, _ in
      guard call == .exchangeEntry, wipes.value == 0 else { return nil }
      wipes.add(1)
      #expect(throws: Never.self) { _ = try LockOrder.outside { try other.removeAll(.locked) } }
      return nil
    }
    #expect(try !self.store(9, store, if: history))
    trace.onCall(nil)
    #expect(wipes.value == 1)
    #expect(try other.load("key") == nil)
    #expect(try other.load("other") != nil)
    #expect(try other.usageEstimate() == before)
  }

  @Test func whatCannotBeTakenBackIsAnError() throws {
    let (store, other) = (try cache.store(files: trace.files), try cache.store())
    let history = try store.firstHistory(of: "key")
    try store.collect()
    let trace = trace
    trace.onCall { call, _ in
      guard call == SystemCall.publication else { return nil }
      trace.onCall { call, _ in call == .unlink ? .fail(.ioError) : nil }
      #expect(throws: Never.self) { try other.removeAll(.unlocked) }
      return nil
    }
    let error = #expect(throws: BlobStoreError.self) { _ = try self.store(9, store, if: history) }
    trace.onCall(nil)
    #expect(error?.errno == .ioError)
    #expect(try other.usageEstimate()?.records == 1)
    #expect(try other.load("key")?.payload == payload(9))
  }

  /// Changes by a failed attempt do not invalidate the store's own condition.
  @Test func itIsMadeThoughItHasToBeTriedAgain() throws {
    let (store, other) = (try cache.store(files: trace.files), try cache.store())
    let history = try store.firstHistory(of: "key")
    let trace = trace
    trace.onCall { call, _ in
      guard call == SystemCall.publication else { return nil }
      trace.onCall(nil)
      return .fail(.noSuchFileOrDirectory)
    }
    let generation = history.generation
    #expect(try self.store(9, store, if: history))
    // Each attempt increments the generation twice.
    #expect(try store.history(of: "key")?.generation == generation.map { $0 &+ 4 })
    #expect(try other.load("key")?.payload == payload(9))
  }

  /// Without a control file, changes are not detected, and the store succeeds.
  @Test func whereThereIsNoRoomForAControlFileItIsMade() throws {
    let store = try cache.store(files: trace.files)
    try cache.makeDirectory("")
    trace.onCall { call, _ in call == .allocate ? .fail(.noSpace) : nil }
    let history = try store.firstHistory(of: "key")
    #expect(history == KeyHistory())
    #expect(try self.store(9, store, if: history))
    trace.onCall(nil)
    #expect(try !self.store(10, store, if: history), "there is a control file now")
    #expect(try store.load("key")?.payload == payload(9))
  }
}
