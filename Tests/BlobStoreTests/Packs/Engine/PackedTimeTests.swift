import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Times, locks, and extended data of packed records.
@Suite struct PackedTimeTests: PackedSuite {
  let cache: Cache

  init() throws { cache = try Cache() }

  @Test func aBlobExpires() throws {
    let store = try store()
    try store.store(payload(5), for: "key", ttl: .seconds(10))
    cache.clock.advance(by: 10)
    #expect(try store.load("key") != nil)
    cache.clock.advance(by: 1)
    #expect(try store.load("key") == nil)
    #expect(try !store.contains("key"))
  }

  @Test func aLoadKeepsABlobWithoutTimeToLive() throws {
    let store = try store()
    try store.store(payload(5), for: "key")
    for _ in 0..<3 {
      cache.clock.advance(by: 600)
      #expect(try store.load("key")?.payload == payload(5))
    }
    cache.clock.advance(by: 601)
    #expect(try store.load("key") == nil)
  }

  @Test func aTouchMovesTheTime() throws {
    let store = try store()
    try store.store(payload(5), for: "key")
    cache.clock.advance(by: 100)
    #expect(try store.touch("key") == .done)
    #expect(try store.header(for: "key")?.lastUpdate == cache.clock.now)
    // A touch also moves the time back, for a clock that was corrected.
    cache.clock.advance(by: -50)
    #expect(try store.touch("key") == .done)
    #expect(try store.header(for: "key")?.lastUpdate == cache.clock.now)
    #expect(try store.load("key")?.payload == payload(5))
  }

  @Test(arguments: [BlobStore.Durability.none, .automatic, .full])
  func locksAreCounted(durability: BlobStore.Durability) throws {
    let store = try store { $0.durability = durability }
    try store.store(payload(5), for: "key", ttl: .seconds(10))
    #expect(try store.lock("key") == .done)
    #expect(try store.lock("key") == .done)
    cache.clock.advance(by: 100)
    #expect(try store.load("key")?.header.refCount == 2)
    #expect(try store.unlock("key") == .done)
    #expect(try store.load("key")?.header.refCount == 1)
    #expect(try cache.store().header(for: "key")?.refCount == 1)
    #expect(try store.unlock("key") == .done)
    #expect(try store.load("key") == nil)
  }

  @Test func locksAreKept() throws {
    let store = try store()
    try store.store(payload(5), for: "key", locks: .one)
    try store.store(payload(6), for: "key", locks: .keep)
    #expect(try store.header(for: "key")?.refCount == 1)
    try store.store(payload(9000), for: "key", locks: .keep)
    #expect(try store.header(for: "key")?.refCount == 1)
    try store.store(payload(7), for: "key", locks: .keep)
    #expect(try store.header(for: "key")?.refCount == 1)
    #expect(try store.load("key")?.payload == payload(7))
  }

  @Test func extendedDataAreReplaced() throws {
    let store = try store()
    try store.store(payload(5), for: "key")
    #expect(try store.setExtendedData(Data([7]), for: "key") == .done)
    #expect(try store.extendedData(for: "key") == Data([7]))
    #expect(try store.load("key")?.payload == payload(5))
    #expect(try store.setExtendedData(nil, for: "key") == .done)
    #expect(try store.extendedData(for: "key") == nil)
  }

  /// A nonblocking lookup records the use immediately, because nothing has to be written.
  @Test func aLookThatNeverWaitsNotesTheUse() throws {
    guard SystemCall.hasCachedLookups else { return }
    let store = try store()
    try store.store(payload(5), for: "key")
    _ = try store.load("key")
    cache.clock.advance(by: 100)
    var receipt = LoadReceipt()
    let path = try store.path(of: "key", for: "load")
    guard case .known(let blob) = store.loadIfCached("key", at: path, touching: true, &receipt) else {
      Issue.record("it would wait")
      return
    }
    #expect(blob?.payload == payload(5))
    #expect(receipt.owedTouch == nil)
    guard case .known(let header?) = store.headerIfCached(for: "key") else {
      Issue.record("the header would wait")
      return
    }
    #expect(header.payloadSize == 5)
    #expect(try store.header(for: "key")?.lastUpdate == cache.clock.now)
  }
}
