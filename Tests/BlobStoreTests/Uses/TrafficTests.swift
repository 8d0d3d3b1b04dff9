import BlobRecord
import Foundation
import Posix
import Synchronization
import TestSupport
import Testing

@testable import BlobStore

/// Spec/Semantics.md, O: requests to a directory are counted across all processes.
@Suite struct TrafficTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  @Test func loadsAndStoresAreCounted() throws {
    let store = try cache.store()
    #expect(try store.traffic() == BlobStore.Traffic())
    #expect(try store.traffic().hitRatio == nil)
    let start = cache.clock.now
    try store.store(payload(10), for: "key", ttl: .seconds(100))
    cache.clock.advance(by: 5)
    try store.store(payload(20), for: "other", ttl: .seconds(100))
    _ = try store.load("key")
    _ = try store.load("key")
    _ = try store.load("other", touching: false)
    _ = try store.load("missing")
    let traffic = try store.traffic()
    #expect(traffic.since == start)
    #expect(traffic.stores == 2 && traffic.bytesStored == 30)
    #expect(traffic.hits == 3 && traffic.memoryHits == 0 && traffic.misses == 1)
    #expect(traffic.bytesServed == 40)
    #expect(traffic.hitRatio == 0.75)
  }

  /// A load of an expired record is a miss; `contains` and `header` are not counted.
  @Test func whatIsExpiredIsAMiss() throws {
    let store = try cache.store()
    try store.store(payload(10), for: "key", ttl: .seconds(100))
    _ = try store.contains("key")
    _ = try store.header(for: "key")
    #expect(try store.traffic().hits == 0)
    cache.clock.advance(by: 101)
    #expect(try store.load("key") == nil)
    #expect(try store.traffic().misses == 1)
  }

  /// A process that only loads is counted, too.
  @Test func readersAreCounted() throws {
    try cache.store().store(payload(10), for: "key")
    let reader = try cache.store()
    _ = try reader.load("key", touching: false)
    _ = try reader.load("missing")
    #expect(try cache.store().traffic().hits == 1)
    #expect(try cache.store().traffic().misses == 1)
  }

  @Test func countingBeginsAnew() throws {
    let store = try cache.store()
    try store.store(payload(10), for: "key")
    _ = try store.load("key")
    cache.clock.advance(by: 7)
    try store.clearTraffic()
    var cleared = BlobStore.Traffic()
    cleared.since = cache.clock.now
    #expect(try store.traffic() == cleared)
    _ = try store.load("key")
    #expect(try store.traffic().hits == 1)
  }

  private static let remote = {
    var traffic = BlobStore.RemoteTraffic()
    for (index, count) in BlobStore.RemoteTraffic.counts.enumerated() { traffic[keyPath: count] = 1 << Int64(index) }
    return traffic
  }()

  /// The counters of a remote tier are shared by all processes, and exist from the first store on.
  @Test func aRemoteTierIsCounted() throws {
    let store = try cache.store()
    _ = try store.load("missing")
    #expect(!store.count(Self.remote))
    try store.store(payload(10), for: "key")
    let before = try store.traffic()
    #expect(store.count(Self.remote))
    var after = before
    after.remote = Self.remote
    let other = try cache.store()
    #expect(try other.traffic() == after)
    #expect(other.count(Self.remote))
    #expect(try store.traffic().remote.since(Self.remote) == Self.remote)
    try store.clearTraffic()
    #expect(try store.traffic().remote == BlobStore.RemoteTraffic())
  }

  /// C17: a pass reports the traffic since the previous complete collection.
  @Test func passesTellWhatHasHappenedSinceTheOneBefore() throws {
    let store = try cache.store { $0.limits.size = 300 }
    #expect(try store.recentPasses() == [])
    for round in 1...20 {
      for index in 0..<3 { try store.store(payload(36), for: BlobKey("\(round) \(index)")) }
      for _ in 0..<round { _ = try store.load(BlobKey("\(round) 0")) }
      _ = try store.load("missing")
      try store.collect()
      cache.clock.advance(by: 1)
    }
    let passes = try store.recentPasses()
    #expect(passes.count == 15)
    for (pass, round) in zip(passes, (6...20 as ClosedRange<Int64>).reversed()) {
      #expect(pass.time == UnixTime(seconds: cache.now - 21 + round))
      #expect(pass.hits == round && pass.misses == 1 && pass.stores == 3)
      #expect(pass.expired == 0 && pass.evicted == 3 && pass.bytesFreed == 300)
      #expect(pass.hitRatio == Double(round) / Double(round + 1))
    }
    try store.clearTraffic()
    try store.collect()
    #expect(try store.recentPasses().first?.hits == 0)
  }

  /// C17: evicted records are counted by the cause of the eviction, and their ages are averaged.
  @Test func evictionsAreCountedByCause() throws {
    let store = try cache.store()
    func fill() throws {
      for index in 0..<10 { try store.store(payload(36), for: BlobKey("\(index)"), ttl: .seconds(1 << 40)) }
      cache.clock.advance(by: 100)
    }
    try fill()
    try cache.store { $0.limits.size = 500 }.collect()
    #expect(try store.statistics().evictedForSizeLimit == 6)
    #expect(try store.statistics().meanEvictedAge == 100)
    try fill()
    try cache.store { $0.limits.count = 5 }.collect()
    #expect(try store.statistics().evictedForCountLimit == 6)
    try fill()
    try store.trim(to: .recordCount(3))
    #expect(try store.statistics().evictedByTrims == 7)
    try fill()
    try store.trim(to: .updatedSince(cache.clock.now))
    #expect(try store.statistics().evictedByTrims == 17)
    try fill()
    try cache.store {
      $0.limits.size = 1 << 50
      $0.limits.freeSpaceFloor = .max
    }.collect()
    let statistics = try store.statistics()
    #expect(statistics.evictedForFreeSpace == 10)
    #expect(statistics.evicted == 39)
  }

  /// Reading or clearing the traffic of a missing directory does not create it.
  @Test func anAbsentDirectoryHasNone() throws {
    let store = try cache.store()
    try store.clearTraffic()
    #expect(try store.traffic() == BlobStore.Traffic())
    #expect(try cache.exists("") == false)
  }

  /// With an invalid control file, counts are never negative and sums do not overflow.
  @Test func rubbishCountsAsZeroOrMuch() throws {
    let store = try cache.store()
    try store.store(payload(10), for: "key")
    let file = try FileHandle(forUpdating: URL(filePath: cache.path(".blobcache")))
    // The first two blocks: -1 hits, and the maximum number.
    for (offset, value) in [(1024, -1), (1032, Int64.max), (1096, Int64.max)] as [(UInt64, Int64)] {
      try file.seek(toOffset: offset)
      try file.write(contentsOf: withUnsafeBytes(of: value.littleEndian) { Data($0) })
    }
    try file.seek(toOffset: UInt64(ControlLayout.remoteTrafficOffset))
    try file.write(contentsOf: withUnsafeBytes(of: Int64(-1).littleEndian) { Data($0) })
    let traffic = try store.traffic()
    #expect(traffic.remote == BlobStore.RemoteTraffic())
    #expect(traffic.hits == 1 << 58 && traffic.memoryHits == 1 << 58 && traffic.hitRatio == 1)
  }

  /// Counts are exact across threads, and across stores with separate mappings of the file.
  @Test func nothingIsLost() throws {
    let stores = try [cache.store(), cache.store()]
    for index in 0..<8 { try stores[0].store(payload(10), for: BlobKey("key \(index)")) }
    DispatchQueue.concurrentPerform(iterations: 4) { thread in
      for index in 0..<400 {
        #expect(throws: Never.self) { _ = try stores[thread % 2].load(BlobKey("key \(index % 8)"), touching: false) }
      }
    }
    #expect(try stores[0].traffic().hits == 1600)
    #expect(try stores[1].traffic().bytesServed == 16_000)
  }

  /// Threads that concurrently increment one counter: a nonatomic addition would lose counts.
  @Test func nothingIsLostOfOneNumber() throws {
    let stores = try [cache.store(), cache.store()]
    try stores[0].store(payload(10), for: "key")
    let controls = try stores.map { store in
      _ = try store.load("key")
      let open = try #require(try store.core.root.opened())
      return try #require(open.openedControlFile)
    }
    let ready = Atomic(0)
    let threads = try controls.map { control in
      try OwnedThread {
        ready.add(1, ordering: .acquiringAndReleasing)
        while ready.load(ordering: .acquiring) < controls.count { sched_yield() }
        for _ in 0..<300_000 { control.count(.miss, of: 7) }
      }
    }
    for thread in threads { thread.join() }
    #expect(try stores[0].traffic().misses == 600_000)
  }
}
