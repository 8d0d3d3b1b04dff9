import Dispatch
import MemoryCache
import Synchronization
import Testing

/// Values are released on the configured queue, whatever removes them, and not on the removing thread.
@Suite(.timeLimit(.minutes(30)))
struct ReleaseQueueTests {
  enum Departure: CaseIterable {
    case removeAll, criticalPressure, removeWhere, removeWhereOfOthers, removeBySubscript, replacement, eviction
    case countTrim, expiryWhenAskedFor, expiryTrim, loweredLimit, oneDearValue
  }

  @Test(arguments: Departure.allCases, [false, true])
  func valuesAreReleasedOnTheChosenQueue(by departure: Departure, isReported: Bool) async {
    let clock = TestClock()
    let queue = DispatchQueue(label: "release")
    var configuration = MemoryCacheConfiguration.test(clock)
    configuration.releaseQueue = queue
    configuration.limits = MemoryCacheLimits(count: Self.count, cost: Self.count)
    let listener: MemoryCache<Int, Released>.RemovalListener = { _ in }
    let cache = MemoryCache<Int, Released>(configuration, onRemoval: isReported ? listener : nil)
    let releases = Releases(queue)
    for key in 0..<Self.count {
      cache.setValue(Released(releases), forKey: key, cost: 1, lifetime: .absolute(.seconds(10)))
    }
    leave(departure, cache, clock)
    await withCheckedContinuation { continuation in queue.async { continuation.resume() } }
    #expect(releases.elsewhere.load(ordering: .relaxed) == 0)
    #expect(releases.there.load(ordering: .relaxed) == Self.count)
  }

  private static let count = 1_000

  private func leave(_ departure: Departure, _ cache: MemoryCache<Int, Released>, _ clock: TestClock) {
    let others = Released(nil)
    switch departure {
    case .removeAll: cache.removeAll()
    case .criticalPressure: cache.respond(to: .critical)
    case .removeWhere: cache.removeAll { _ in true }
    case .removeWhereOfOthers:
      // The enumeration retains the entries while another call removes them.
      cache.removeAll { entry in
        if entry.key % 256 == 0 { cache.removeAll() }
        return false
      }
    case .removeBySubscript: for key in 0..<Self.count { cache[key] = nil }
    case .replacement: for key in 0..<Self.count { cache[key] = others }
    case .eviction: for key in 0..<Self.count { cache[Self.count + key] = others }
    case .countTrim: cache.trim(toCount: 0)
    case .loweredLimit: cache.limits.count = 0
    case .oneDearValue: cache.setValue(others, forKey: -1, cost: Self.count)
    case .expiryWhenAskedFor:
      clock.advance(by: .seconds(10))
      for key in 0..<Self.count { #expect(cache[key] == nil) }
    case .expiryTrim:
      clock.advance(by: .seconds(10))
      cache.trim()
    }
  }
}

/// Counts the values that were released on the configured queue, and elsewhere.
private final class Releases: Sendable {
  let there = Atomic(0)
  let elsewhere = Atomic(0)
  private let key = DispatchSpecificKey<Bool>()

  init(_ queue: DispatchQueue) { queue.setSpecific(key: key, value: true) }

  func note() {
    if DispatchQueue.getSpecific(key: key) == true {
      there.add(1, ordering: .relaxed)
    } else {
      elsewhere.add(1, ordering: .relaxed)
    }
  }
}

private final class Released: Sendable {
  private let releases: Releases?

  init(_ releases: Releases?) { self.releases = releases }

  deinit { releases?.note() }
}
