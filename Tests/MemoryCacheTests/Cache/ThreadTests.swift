import Foundation
import Locks
import MemoryCache
import Synchronization
import TestSupport
import Testing

@Suite struct ThreadTests {
  private static let threadCount = 6

  /// A value that counts its instances.
  private final class Tracked: Sendable {
    let key: Int
    let serial: Int
    let onRelease: @Sendable () -> Void

    init(_ key: Int, _ serial: Int, onRelease: @escaping @Sendable () -> Void) {
      self.key = key
      self.serial = serial
      self.onRelease = onRelease
    }

    deinit { onRelease() }
  }

  private func inThreads(_ body: @escaping @Sendable (Int) -> Void) {
    let group = DispatchGroup()
    for index in 0..<Self.threadCount {
      group.enter()
      Thread {
        body(index)
        group.leave()
      }
      .start()
    }
    group.wait()
  }

  /// With any interleaving of threads, a found value belongs to its key, every value is reported once or is present
  /// at the end, and all values are released.
  @Test(.timeLimit(.minutes(30)), arguments: EvictionPolicy.allCases, [1, 8])
  func everyValueLeavesOnce(policy: EvictionPolicy, shards: Int) throws {
    let seed = SeededGenerator.announcedSeed(
      for: "everyValueLeavesOnce", environment: ProcessInfo.processInfo.environment)
    let clock = TestClock()
    let alive = Atomic(0)
    let kept = Lock<Set<Int>>([])
    let left = Lock<[Int: Int]>([:])
    let serials = Atomic(0)
    do {
      var configuration = MemoryCacheConfiguration.test(
        clock, limits: MemoryCacheLimits(count: 300, cost: 3_000, age: .seconds(50)), policy: policy)
      configuration.shards = shards
      let cache = MemoryCache<Int, Tracked>(configuration) { removed in
        left.withLock { $0[removed.value.serial, default: 0] += 1 }
      }
      inThreads { index in
        var generator = SeededGenerator(seed: seed &+ UInt64(index))
        for round in 0..<4_000 {
          let key = Int.random(in: 0..<600, using: &generator)
          switch Int.random(in: 0..<20, using: &generator) {
          case 0..<9:
            if let value = cache.value(forKey: key) { #expect(value.key == key) }
          case 9..<16:
            let serial = serials.add(1, ordering: .relaxed).newValue
            alive.add(1, ordering: .relaxed)
            let value = Tracked(key, serial) { alive.subtract(1, ordering: .relaxed) }
            let lifetime: EntryLifetime = serial % 3 == 0 ? .sliding(.seconds(9)) : .unlimited
            if cache.setValue(value, forKey: key, cost: serial % 40, lifetime: lifetime) {
              kept.withLock { _ = $0.insert(serial) }
            }
          case 16: cache.removeValue(forKey: key)
          case 17: cache.removeAll { $0.value.serial % 50 == 0 }
          case 18:
            clock.advance(by: .milliseconds(100))
            if round % 10 == 0 { cache.trim() }
          default:
            if round % 100 == 0 { cache.removeAll() } else { _ = cache.entries(most: 10) }
          }
        }
      }
      cache.checkInvariants()
      let present = cache.entries().map(\.value.serial)
      #expect(cache.count <= 300)
      let statistics = cache.statistics
      #expect(statistics.insertions == kept.withLock { $0.count })
      cache.removeAll()
      let reports = left.withLock { $0 }
      #expect(Set(reports.keys) == kept.withLock { $0 })
      #expect(reports.values.allSatisfy { $0 == 1 })
      #expect(present.allSatisfy { reports[$0] == 1 })
    }
    #expect(alive.load(ordering: .relaxed) == 0)
  }

  private final class Reentrant: Sendable {
    let onRelease: @Sendable () -> Void
    init(_ onRelease: @escaping @Sendable () -> Void) { self.onRelease = onRelease }
    deinit { onRelease() }
  }

  /// A value's deinit and the listener can use the cache, whatever removes the value.
  @Test(.timeLimit(.minutes(30)), arguments: EvictionPolicy.allCases) func valuesLeaveOutsideTheLock(
    policy: EvictionPolicy
  ) {
    let clock = TestClock()
    let releases = Atomic(0)
    let reports = Lock<Set<RemovalCause>>([])
    let box = Lock<MemoryCache<Int, Reentrant>?>(nil)
    func cache() -> MemoryCache<Int, Reentrant>? { box.withLock { $0 } }
    let made = MemoryCache<Int, Reentrant>(
      .test(clock, limits: MemoryCacheLimits(count: 4, age: .seconds(100)), policy: policy)
    ) { removed in
      reports.withLock { _ = $0.insert(removed.cause) }
      _ = box.withLock { $0 }?.value(forKey: removed.key)
      _ = box.withLock { $0 }?.count
    }
    box.withLock { $0 = made }
    func set(_ key: Int, _ lifetime: EntryLifetime = .unlimited) {
      let value = Reentrant {
        releases.add(1, ordering: .relaxed)
        _ = box.withLock { $0 }?.contains(key)
      }
      cache()?.setValue(value, forKey: key, lifetime: lifetime)
    }
    for key in 0..<20 { set(key) }
    for _ in 0..<2 { set(30) }
    cache()?.removeValue(forKey: 30)
    set(31, .absolute(.seconds(1)))
    clock.advance(by: .seconds(2))
    #expect(cache()?.value(forKey: 31) == nil)
    set(32)
    cache()?.removeAll { $0.key == 32 }
    set(33)
    cache()?.trim(toCount: 0)
    set(34)
    cache()?.respond(to: .critical)
    set(35)
    clock.advance(by: .seconds(200))
    cache()?.trim()
    set(36)
    cache()?.removeAll()
    #expect(releases.load(ordering: .relaxed) == 28)
    #expect(reports.withLock { $0 } == Set(RemovalCause.allCases))
    box.withLock { $0 = nil }
  }

  /// The listener is called on the removing thread, before the removing call returns.
  @Test func listenerRunsBeforeTheCallReturns() {
    let count = Atomic(0)
    let cache = MemoryCache<String, Int>(.test(TestClock(), limits: MemoryCacheLimits(count: 1))) { _ in
      count.add(1, ordering: .relaxed)
    }
    cache["a"] = 1
    cache["b"] = 2
    #expect(count.load(ordering: .relaxed) == 1)
  }
}
