import BlobRecord
import BlobStore
import Foundation
import TestSupport
import Testing

/// Spec/Semantics.md, M4 and M7: limits that are small, or kept by stores that each store one record.
@Suite(.timeLimit(.minutes(30))) struct ShortLivedStoreTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  private func limitedStore(_ limit: Int64) throws -> BlobStore {
    try cache.store {
      $0.limits.size = limit
      $0.limits.collectsOnStore = true
    }
  }

  /// The bytes of all files but the control file, as `du` shows them.
  private func diskBytes() throws -> Int64 {
    try FileManager.default.subpathsOfDirectory(atPath: cache.root.string).filter { $0 != ".blobcache" }
      .reduce(0) { try $0 + allocatedBytes(ofFile: cache.path($1)) }
  }

  /// M7: each store is released immediately, as in a process that ends.
  @Test func storesOfOneRecordKeepTheLimit() throws {
    let limit: Int64 = 1_000_000
    let observer = try cache.store()
    for key in 0..<150 {
      do {
        let store = try limitedStore(limit)
        try store.store(payload(20_000), for: "key \(key)", ttl: .seconds(1000))
        cache.clock.advance(by: 1)
      }
      let usage = try #require(try observer.usageEstimate())
      #expect(usage.bytes <= limit, "after \(key)")
      #expect(try diskBytes() <= limit * 12 / 10, "after \(key)")
    }
    #expect(try observer.usage().records > 30)
    #expect(try observer.load("key 149") != nil)
  }

  /// M4a: a limit of few records admits one more.
  @Test func aLimitOfOneRecordAdmitsOneMore() throws {
    let store = try cache.store {
      $0.limits.count = 1
      $0.limits.collectsOnStore = true
    }
    for key in 0..<20 {
      try store.store(payload(10), for: "key \(key)", ttl: .seconds(1000))
      #expect(try store.usage().records <= 2)
      #expect(try store.contains("key \(key)"))
    }
    store.waitForCollection()
    #expect(try store.usage().records == 1)
  }
}
