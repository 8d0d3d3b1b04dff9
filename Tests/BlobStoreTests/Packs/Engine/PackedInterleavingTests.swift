import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// What another process does to a record between two calls of a load or of a change.
@Suite struct PackedInterleavingTests: BetweenCalls {
  let cache: Cache
  let trace = CallTrace()

  init() throws {
    cache = try Cache()
    // So that there are packs.
    try packingStore().store(payload(9), for: "another")
  }

  private func packingStore() throws -> BlobStore { try cache.store { $0.packing = .upTo(8192) } }

  @Test func aRecordThatMovesToAPackDuringALoadIsFound() throws {
    try cache.store().store(payload(5), for: "key")
    let other = try packingStore()
    before(.openBeneath, at: "ke/key") { try other.store(payload(6), for: "key") }
    #expect(try tracedStore().load("key")?.payload == payload(6))
    #expect(try !cache.exists("ke/key"))
  }

  @Test func aRecordThatMovesToAFileDuringALoadIsFound() throws {
    let other = try packingStore()
    try other.store(payload(5), for: "key")
    before(.read, at: ".packs/p-0") { try other.store(payload(9000), for: "key") }
    #expect(try tracedStore().load("key")?.payload == payload(9000))
  }

  /// The file is gone, and the packs do not have the record yet or any more: the generation tells.
  @Test func aRecordThatMovesThereAndBackDuringALoadIsFound() throws {
    let other = try packingStore()
    try other.store(payload(9000), for: "key")
    before(.openBeneath, at: "ke/key") {
      try other.store(payload(5), for: "key")
      try other.remove("key")
    }
    #expect(try tracedStore().load("key") == nil)
  }

  @Test func aLookThatNeverWaitsDoesNotBelieveAFileThatGoes() throws {
    guard SystemCall.hasCachedLooks else { return }
    try cache.store().store(payload(5), for: "key")
    let other = try packingStore()
    let store = try tracedStore()
    _ = try store.load("another")
    before(.openCached, at: "ke/key") { try other.store(payload(6), for: "key") }
    #expect(!isKnown(store) { store, path, receipt in store.loadIfCached("key", at: path, touching: true, &receipt) })
    try cache.store().store(payload(7), for: "key")
    try cache.store { $0.packing = .off }.withExclusiveAccess(to: "key") { _ in }
    before(.openCached, at: "ke/key") { try other.store(payload(8), for: "key") }
    if case .known = store.headerIfCached(for: "key") { Issue.record("the header of a file that is gone") }
  }

  private func isKnown(
    _ store: BlobStore, _ look: (BlobStore, RecordPath, inout LoadReceipt) throws -> CachedAnswer<Blob>
  ) rethrows -> Bool {
    var receipt = LoadReceipt()
    guard let path = try? store.path(of: "key", for: "load") else { return false }
    if case .known = try look(store, path, &receipt) { return true }
    return false
  }

  @Test func aPackThatCannotBeReadIsAnErrorOfTheStore() throws {
    try packingStore().store(payload(5), for: "key")
    let store = try tracedStore()
    trace.onCall { call, path in call == .read && path.string.hasSuffix("p-0") ? .fail(.ioError) : nil }
    expect(.fileSystem) { try store.store(payload(9000), for: "key") }
    expect(.fileSystem) { _ = try store.load("key") }
    trace.onCall(nil)
    #expect(try store.load("key")?.payload == payload(5))
  }

  /// 2^40 seconds are the most that a packed header has room for.
  @Test func aRecordThatFitsNoPackAnyMoreBecomesAFile() throws {
    let store = try packingStore()
    try store.store(payload(5), for: "key", ttl: .never)
    cache.clock.advance(by: 1 << 41)
    #expect(try store.renew("key") == .done)
    #expect(try cache.exists("ke/key"))
    #expect(try store.header(for: "key")?.lastUpdate == cache.clock.now)
    #expect(try store.load("key")?.payload == payload(5))
  }

  @Test func anExtensionThatFitsNoPackMakesAFile() throws {
    let store = try cache.store { $0.packing = .upTo(BlobStore.Packing.largestBound) }
    try store.store(payload(32_000), for: "key")
    #expect(try !cache.exists("ke/key"))
    #expect(try store.setExtendedData(payload(4000), for: "key") == .done)
    #expect(try cache.exists("ke/key"))
    #expect(try store.extendedData(for: "key") == payload(4000))
    #expect(try store.load("key")?.payload == payload(32_000))
  }
}
