import BlobStore
import Foundation
import Posix
import Synchronization
import TestSupport
import Testing

/// Spec/Semantics.md, M4: small records that would be packed are stored within the bound, as files are.
@Suite(.timeLimit(.minutes(30))) struct PackedBoundTests: PackedSuite {
  let cache: Cache
  private static let limit: Int64 = 10 << 20
  /// The limit and the excess, without the hundredth of the limit that the quarantine may take.
  private static let bound = limit + LimitTests.slack(limit) - limit / 100

  init() throws { cache = try Cache() }

  private func limitedStore(files: Files = Files()) throws -> BlobStore {
    try store(files: files) {
      $0.limits.size = Self.limit
      $0.limits.collectsOnStore = true
    }
  }

  /// Stores a small record by a writer, which packs it at the commit, or at once.
  private func storeSmallRecord(_ store: BlobStore, isWritten: Bool) throws {
    guard isWritten else { return try store.store(payload(100), for: "small") }
    var writer = try store.openWriter(for: "small")
    try writer.append(payload(100))
    try writer.commit()
  }

  @Test func aRecordBeyondTheBoundIsRefusedWhereAllIsLocked() throws {
    let store = try limitedStore()
    // All but 100 bytes of the bound are locked.
    var left = Self.bound - 100
    while left > 64 {
      let byteCount = min(left, Self.limit)
      try store.store(payload(Int(byteCount) - 64), for: "locked \(left)", locks: .one)
      store.waitForCollection()
      left -= byteCount
    }
    for isWritten in [false, true] {
      expect(.limitReached) { try storeSmallRecord(store, isWritten: isWritten) }
    }
    #expect(try store.load("small") == nil)
    #expect(try store.removeAll(.locked).files > 1)
    try store.store(payload(100), for: "small")
    #expect(try store.load("small")?.payload == payload(100))
  }

  /// A record waits while a collection makes room, and is packed afterwards.
  @Test(arguments: [false, true]) func aRecordIsGivenRoom(isWritten: Bool) throws {
    let other = try store()
    for key in 0..<27 { try other.store(payload(1 << 20), for: "key \(key)") }
    try other.collect()
    let trace = CallTrace()
    let store = try limitedStore(files: trace.files)
    let usage = Atomic(Int64(0))
    trace.onCall { call, _ in
      // The record is counted before its entry makes it visible, so the store must have waited by now.
      guard call == .exchangeEntry, usage.load(ordering: .relaxed) == 0 else { return nil }
      usage.store((try? other.usageEstimate()?.bytes) ?? .max, ordering: .relaxed)
      return nil
    }
    try storeSmallRecord(store, isWritten: isWritten)
    trace.onCall(nil)
    let published = usage.load(ordering: .relaxed)
    #expect((1...Self.bound).contains(published))
    store.waitForCollection()
    #expect(try store.records().first { $0.key == "small" }?.packed != nil)
    #expect(try store.usage().bytes <= Self.limit)
  }
}
