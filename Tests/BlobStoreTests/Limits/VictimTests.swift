import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, C27: only the record that a walk has visited is evicted, not its replacement.
@Suite(.timeLimit(.minutes(30))) struct VictimTests {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  enum Replacement: CaseIterable {
    case stored, removedAndStored, recycled
  }

  /// C27: two stores within a second differ, even if the second file reuses the first one's inode.
  @Test(arguments: [1 << 17, 0], Replacement.allCases) func aRecordStoredAnewWithinTheSecondStays(
    remembered: Int, replacement: Replacement
  ) throws {
    let (cache, trace) = (cache, trace)
    // The replacement has equal bytes in another file, or other bytes, perhaps in the same file within the same tick.
    let anew = payload(36, replacement == .removedAndStored ? 2 : 1)
    let other = try cache.store { $0.recycling = replacement == .recycled ? .automatic : .off }
    try other.store(payload(36), for: "aged")
    cache.clock.advance(by: 10)
    try other.store(payload(36), for: "young")
    trace.onCall { call, _ in
      // The collection takes the stripe of its victim.
      guard call == .takeStripe else { return nil }
      trace.onCall(nil)
      cache.clock.advance(by: -10)
      #expect(throws: Never.self) {
        if replacement == .removedAndStored { try other.remove("aged") }
        try other.store(anew, for: "aged")
      }
      cache.clock.advance(by: 10)
      return nil
    }
    let store = try cache.store(files: trace.files) {
      $0.limits.count = 1
      $0.limits.evictionTarget = 1
    }
    var options = BlobStore.CollectionOptions()
    options.rememberedRecords = remembered
    let report = try store.collect(options)
    #expect(try store.load("aged", touching: false)?.payload == anew)
    // If the walk remembers records, the next one is evicted. Otherwise, a second walk decides, and evicts none.
    #expect(report.evicted == (remembered > 0 ? 1 : 0))
    #expect(try cache.files() == (remembered > 0 ? ["ag/aged"] : ["ag/aged", "yo/young"]))
  }

  /// M5, C27.
  @Test func aKnownVictimStoredAnewWithinTheSecondStays() throws {
    let other = try cache.store()
    let store = try cache.store {
      $0.limits.size = 1000
      $0.limits.collectsOnStore = true
    }
    for key in 0..<11 {
      try store.store(payload(36), for: "key \(key)")
      store.waitForCollection()
      cache.clock.advance(by: 1)
    }
    // Two records have been evicted; the next victims would be 2, 3, and 4.
    cache.clock.advance(by: -9)
    try other.store(payload(36, 2), for: "key 2")
    cache.clock.advance(by: 9)
    for key in 11..<13 {
      try store.store(payload(36), for: "key \(key)")
      store.waitForCollection()
    }
    #expect(try store.statistics().evictions == 1)
    #expect(try store.load("key 2", touching: false)?.payload == payload(36, 2))
    let left = Set(try store.records().compactMap { $0.key?.string })
    #expect(left == Set([2, 5, 6, 7, 8, 9, 10, 11, 12].map { "key \($0)" }))
  }

  /// C27, C7: an unchanged record is evicted.
  @Test func anUnchangedVictimGoes() throws {
    let other = try cache.store()
    let store = try cache.store {
      $0.limits.count = 1
      $0.limits.evictionTarget = 1
    }
    for key in 0..<20 {
      try other.store(payload(36), for: "key \(key)")
      cache.clock.advance(by: 1)
    }
    #expect(try store.collect().evicted == 19)
    #expect(try cache.files() == ["ke/key 19"])
  }
}
