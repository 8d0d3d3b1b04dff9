import Foundation
import Locks
import MemoryCache
import TestSupport
import Testing

/// Applies random operations to a cache and a slow model, and compares results, reports, counters and the order.
@Suite struct ModelTests {
  @Test(
    .timeLimit(.minutes(30)),
    arguments: [
      MemoryCacheLimits(), MemoryCacheLimits(count: 12), MemoryCacheLimits(cost: 60),
      MemoryCacheLimits(cost: 60, maximumCostShare: 0.1), MemoryCacheLimits(count: 1),
      MemoryCacheLimits(count: 14, cost: 90, age: .seconds(20)),
    ])
  func cacheIsAnArrayInOrderOfRecency(limits: MemoryCacheLimits) throws {
    let seed = SeededGenerator.announcedSeed(
      for: "cacheIsAnArrayInOrderOfRecency", environment: ProcessInfo.processInfo.environment)
    var run = ModelRun(seed: seed, limits: limits)
    for index in 0..<4_000 {
      let operation = run.step()
      let mismatches = run.mismatches()
      try #require(mismatches.isEmpty, "seed \(seed), operation \(index): \(operation)")
    }
  }

  /// The harness detects a planted bug: a use that does not count.
  @Test func modelFindsALostUse() {
    var run = ModelRun(seed: 7, limits: MemoryCacheLimits(count: 12))
    run.value = { cache, key in cache.peek(key) }
    #expect(
      (0..<1_000).contains { _ in
        _ = run.step()
        return !run.mismatches().isEmpty
      })
  }
}

private struct ModelRun {
  private let clock = TestClock()
  private let cache: MemoryCache<String, Int>
  private let removed: RemovalLog
  private var model = CacheModel()
  private var generator: SeededGenerator
  private var nextValue = 0
  private var answersDiffer = false
  /// The lookup of a value, which a test replaces to plant its bug.
  var value: (MemoryCache<String, Int>, String) -> Int? = { $0.value(forKey: $1) }

  init(seed: UInt64, limits: MemoryCacheLimits) {
    generator = SeededGenerator(seed: seed)
    model.limits = limits
    let log = RemovalLog()
    removed = log
    cache = MemoryCache(.test(clock, limits: limits)) { log.append($0) }
  }

  private mutating func key() -> String { "key \(Int.random(in: 0..<30, using: &generator))" }

  private mutating func lifetime() -> EntryLifetime {
    let seconds = Int.random(in: -1...25, using: &generator)
    switch Int.random(in: 0..<6, using: &generator) {
    case 0: return .absolute(.seconds(seconds))
    case 1: return .sliding(.seconds(seconds))
    case 2: return .until(clock.now.advanced(by: .seconds(seconds)))
    default: return .unlimited
    }
  }

  private mutating func check<Answer: Equatable>(_ a: Answer, _ b: Answer) {
    if a != b { answersDiffer = true }
  }

  /// Applies one operation to both, and returns its description.
  mutating func step() -> String {
    if Int.random(in: 0..<4, using: &generator) == 0 {
      clock.advance(by: .seconds(Int.random(in: 0...4, using: &generator)))
      model.now = clock.now.nanoseconds
    }
    let key = key()
    let number = Int.random(in: -1...20, using: &generator)
    switch Int.random(in: 0..<100, using: &generator) {
    case 0..<40:
      check(value(cache, key), model.value(key))
      return "value \(key)"
    case 40..<75:
      nextValue += 1
      let lifetime = lifetime()
      check(
        cache.setValue(nextValue, forKey: key, cost: number, lifetime: lifetime),
        model.set(nextValue, key, number, lifetime))
      return "set \(key) \(number) \(lifetime)"
    case 75..<80:
      check(cache.peek(key), model.peek(key))
      check(cache.contains(key), model.peek(key) != nil)
      return "peek \(key)"
    case 80..<86:
      check(cache.removeValue(forKey: key), model.remove(key))
      return "remove \(key)"
    case 86..<88:
      check(
        cache.removeAll { $0.cost <= max(number, 0) },
        model.removeAll(costing: 0...max(number, 0)))
      return "remove where cost <= \(number)"
    case 88..<91:
      check(cache.removeExpired(), model.trim(toAge: nil))
      return "removeExpired"
    case 91..<93:
      check(cache.trim(toAge: .seconds(number)), model.trim(toAge: .seconds(number)))
      return "trim to age \(number)"
    case 93..<95:
      cache.trim(toCount: number)
      model.trim(toCount: number)
      return "trim to count \(number)"
    case 95..<97:
      cache.trim(toCost: number * 5)
      model.trim(toCost: number * 5)
      return "trim to cost \(number * 5)"
    case 97:
      cache.removeAll()
      model.removeAll()
      return "removeAll"
    default:
      model.limits.count = model.limits.count.map { _ in abs(number) }
      cache.limits = model.limits
      _ = model.trim(toAge: nil)
      model.evict()
      return "limits \(model.limits)"
    }
  }

  /// Returns the differences after an operation.
  mutating func mismatches() -> [String] {
    cache.checkInvariants()
    var mismatches: [String] = answersDiffer ? ["answer"] : []
    let found = cache.entries(leastRecentFirst: true)
    if found.map(\.key) != model.live.map(\.key) { mismatches.append("order \(found.map(\.key))") }
    if found.map(\.value) != model.live.map(\.value) { mismatches.append("values") }
    if found.map(\.deadline?.nanoseconds) != model.live.map(\.deadline) { mismatches.append("deadlines") }
    if cache.entries().map(\.key) != found.map(\.key).reversed() { mismatches.append("reversed order") }
    if cache.count != model.entries.count { mismatches.append("count \(cache.count) not \(model.entries.count)") }
    if cache.totalCost != model.totalCost { mismatches.append("cost \(cache.totalCost) not \(model.totalCost)") }
    if cache.statistics != model.statistics { mismatches.append("\(cache.statistics) not \(model.statistics)") }
    // The order of reports within one operation is not guaranteed.
    let reports = removed.takeAll()
    if Set(reports) != Set(model.removals) || reports.count != model.removals.count {
      mismatches.append("reports \(reports) not \(model.removals)")
    }
    model.removals = []
    return mismatches
  }
}

/// The removals that a cache reported.
final class RemovalLog: Sendable {
  private let removals = Lock<[CacheModel.Removal]>([])

  func append(_ entry: RemovedEntry<String, Int>) {
    removals.withLock {
      $0.append(CacheModel.Removal(key: entry.key, value: entry.value, cost: entry.cost, cause: entry.cause))
    }
  }

  func takeAll() -> [CacheModel.Removal] {
    removals.withLock { removals in
      defer { removals = [] }
      return removals
    }
  }
}
