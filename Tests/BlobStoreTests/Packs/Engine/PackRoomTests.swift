import BlobRecord
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// Spec/Semantics.md, I1e: the volume has no room for a chunk, but has room for a file.
@Suite struct PackRoomTests: PackedSuite {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  private func refuseRoom(_ errno: Errno) {
    trace.onCall { call, path in
      let isOfPacks = path.components.contains { $0.string == ".packs" }
      return isOfPacks && [.allocate, .allocateRange].contains(call) ? .fail(errno) : nil
    }
  }

  @Test(arguments: [Errno.noSpace, .diskQuotaExceeded], [true, false])
  func aRecordBecomesAFile(errno: Errno, hasPacks: Bool) throws {
    let store = try store(files: trace.files)
    if hasPacks { try store.store(payload(100), for: "before", ttl: .seconds(1000)) }
    refuseRoom(errno)
    try store.store(payload(100), for: "key")
    let results = store.store([
      (key: BlobKey("one"), payload: payload(10)), (key: BlobKey("two"), payload: payload(20)),
    ])
    for result in results { #expect(try result.result.get() == .done) }
    #expect(try cache.files().subtracting(Cache.filesOfPacks) == ["ke/key", "on/one", "tw/two"])
    for (key, byteCount): (BlobKey, Int) in [("key", 100), ("one", 10), ("two", 20)] {
      #expect(try store.load(key)?.payload == payload(byteCount))
    }
    trace.onCall(nil)
    try store.store(payload(101), for: "key")
    #expect(try cache.files().subtracting(Cache.filesOfPacks) == ["on/one", "tw/two"])
    #expect(try store.load("key")?.payload == payload(101))
  }

  /// A store is refused before room is reserved for it, so it leaves no hole in the chunk.
  @Test func aRefusedStoreTakesNoRoom() throws {
    let store = try store {
      $0.limits.size = 4000
      $0.limits.collectsOnStore = true
      $0.access.lockTimeout = .zero
    }
    try store.store(payload(100), for: "key")
    let open = try #require(try store.core.root.opened())
    let chunk = try #require(try Records(store.core).packs(of: open)?.packs.files.pack(0)).entry(ofChunk: 0)
    let end = chunk.end
    let refused = payload(100, 2)
    for _ in 0..<50 {
      let receipt = try store.storeWithReceipt(
        refused.bytes, nil, for: "key", ttl: nil, locks: .none, if: StoreCondition { _ in false })
      #expect(receipt == nil)
    }
    #expect(chunk.end == end)
    #expect(try store.load("key")?.payload == payload(100))
  }

  /// A record that is locked moves to a durable chunk, or to a file if there is no room for a chunk.
  @Test func aLockMakesAFile() throws {
    let store = try store(files: trace.files)
    try store.store(payload(100), for: "key")
    refuseRoom(.noSpace)
    #expect(try store.lock("key") == .done)
    #expect(try cache.files().subtracting(Cache.filesOfPacks) == ["ke/key"])
    #expect(try cache.header("ke/key").refCount == 1)
    #expect(try store.load("key")?.payload == payload(100))
    #expect(try store.unlock("key") == .done)
  }

  /// Semantics, I8c: the fuzz target of packs found a record with the highest possible sequence.
  @Test(arguments: [1 << 55, 1 << 56 - 1] as [UInt64]) func withoutSequencesRecordsAreFiles(highest: UInt64) throws {
    let store = try store()
    try store.store(payload(100), for: "key")
    try store.store(payload(100), for: "other")
    let open = try #require(try store.core.root.opened())
    try #require(try Records(store.core).packs(of: open)).control.raisePackSequence(to: highest)
    try store.store(payload(50), for: "new")
    #expect(try store.lock("key") == .done)
    try store.remove("other")
    let report = try store.collect()
    #expect(report.failed == 0)
    #expect(try cache.files().subtracting(Cache.filesOfPacks) == ["ke/key", "ne/new"])
    #expect(try store.load("key")?.payload == payload(100))
    #expect(try store.load("new")?.payload == payload(50))
  }

  /// If there is no room for a file either, a store throws an error, and the old blob stays.
  @Test func aFileThatFindsNoRoomIsAnError() throws {
    let store = try store(files: trace.files)
    try store.store(payload(100), for: "key", ttl: .seconds(1000))
    trace.onCall { call, _ in [.allocate, .allocateRange, .reserve, .write].contains(call) ? .fail(.noSpace) : nil }
    #expect(expect(.fileSystem) { try store.store(payload(50), for: "key") }?.errno == .noSpace)
    #expect(expect(.fileSystem) { try store.store(payload(50), for: "new") }?.errno == .noSpace)
    #expect(try store.load("key")?.payload == payload(100))
    #expect(try store.load("new") == nil)
  }
}
