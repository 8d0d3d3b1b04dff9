import BlobRecord
import BlobStore
import Foundation
import Posix
import Synchronization
import TestSupport
import Testing

/// Spec/Semantics.md, M1: a store that exceeds the limits while a collection ends.
@Suite(.timeLimit(.minutes(30))) struct LateStoreTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// The collection has checked the limits for the last time, so its thread starts another one.
  @Test func aStoreAfterTheLastLookIsNotForgotten() throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files) {
      $0.limits.collectsOnStore = true
      $0.limits.size = 4000
      $0.limits.freeSpaceFloor = 1
    }
    for key in 0..<40 {
      try store.store(payload(36), for: "key \(key)")
      store.waitForCollection()
      cache.clock.advance(by: 1)
    }
    let storing = ObjectIdentifier(Thread.current)
    let hasStored = Atomic(false)
    // The thread queries the volume before and after its work.
    trace.onCall { call, _ in
      guard call == .volumeStatus, ObjectIdentifier(Thread.current) != storing,
        let usage = try? store.usageEstimate(), usage.bytes <= 4000
      else { return nil }
      trace.onCall(nil)
      // More than the collection has left free, and less than the bound, because no store may wait here.
      for key in 0..<6 { #expect(throws: Never.self) { try store.store(payload(36), for: "late \(key)") } }
      hasStored.store(true, ordering: .relaxed)
      return nil
    }
    // The interception and the store retain each other.
    defer { trace.onCall(nil) }
    try store.store(payload(36), for: "one more")
    store.waitForCollection()
    #expect(hasStored.load(ordering: .relaxed) == true)
    #expect((36...40).contains(try store.usage().records))
    #expect(try store.contains("late 5"))
  }
}
