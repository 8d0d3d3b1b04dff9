import BlobRecord
import BlobStore
import TestSupport
import Testing

/// The arithmetic of Spec/Semantics.md, C7, without files.
@Suite struct EvictionPlanTests {
  /// Ranges of times that make the buckets as long as seconds, years, or the whole range.
  static let spreads: [ClosedRange<Int64>] = [
    0...0, 1_700_000_000...1_700_000_001, 0...100, 1_699_999_000...1_700_000_000, 0...20_000, 0...1_700_000_000,
    Int64.min...Int64.max, (Int64.max - 5)...Int64.max, Int64.min...(Int64.min + 40_000),
  ]

  @Test(arguments: spreads) func boundaryIsWhereTheOldestSuffice(spread: ClosedRange<Int64>) {
    var generator = SeededGenerator(seed: 1)
    for count in [1, 2, 10, 500] {
      var histogram = AgeHistogram()
      var records: [(time: Int64, bytes: Int64)] = []
      for _ in 0..<count {
        let record = (
          time: Int64.random(in: spread, using: &generator), bytes: Int64.random(in: 1...1000, using: &generator)
        )
        records.append(record)
        histogram.add(UnixTime(seconds: record.time), bytes: record.bytes)
      }
      let total = records.reduce(0) { $0 + $1.bytes }
      #expect(histogram.boundary(freeing: total + 1) == nil)
      for goal in [1, total / 3, total / 2, total] where goal > 0 {
        var freed: Int64 = 0
        let last = records.sorted { $0.time < $1.time }.first {
          freed += $0.bytes
          return freed >= goal
        }
        guard let boundary = histogram.boundary(freeing: goal), let last else {
          Issue.record("no boundary for \(goal) of \(total)")
          continue
        }
        #expect(boundary.times.contains(UnixTime(seconds: last.time)))
        let inside = records.filter { boundary.times.contains(UnixTime(seconds: $0.time)) }
        #expect(boundary.bucket.records == Int64(inside.count))
        #expect(boundary.bucket.bytes == inside.reduce(0) { $0 + $1.bytes })
        let older = records.filter { UnixTime(seconds: $0.time) < boundary.times.lowerBound }
        #expect(boundary.olderBytes == older.reduce(0) { $0 + $1.bytes })
      }
    }
  }

  /// The remembered oldest records are complete up to a time.
  @Test(arguments: spreads) func oldestAreFoundUpToATime(spread: ClosedRange<Int64>) {
    var generator = SeededGenerator(seed: 4)
    var histogram = AgeHistogram()
    let times = (0..<500).map { _ in Int64.random(in: spread, using: &generator) }
    for time in times { histogram.add(UnixTime(seconds: time), bytes: 1) }
    for most in [0, 1, 100, 499, 500] as [Int64] {
      guard let newest = histogram.newestTime(holding: most) else { continue }
      let held = times.count { $0 <= newest.seconds }
      #expect(held > 0 && held <= most)
    }
    #expect(histogram.newestTime(holding: 500).map { $0.seconds >= times.max() ?? .max } == true)
    #expect(histogram.newestTime(holding: 0) == nil)
  }

  /// Times within sixteen thousand seconds are distinguished.
  @Test func nearTimesAreToldApartToTheSecond() {
    var histogram = AgeHistogram()
    for time in 0..<8000 { histogram.add(UnixTime(seconds: 1_700_000_000 - Int64(time)), bytes: 1) }
    let boundary = histogram.boundary(freeing: 100)
    #expect(boundary?.times.lowerBound == UnixTime(seconds: 1_700_000_000 - 7900))
    #expect(boundary?.times.upperBound == boundary?.times.lowerBound)
  }

  /// Moving all buckets for each insertion would take minutes.
  @Test(.timeLimit(.minutes(30)), arguments: [1, -1] as [Int64])
  func timesInOrderAreAddedQuickly(step: Int64) {
    var histogram = AgeHistogram()
    for index in 0..<100_000 as Range<Int64> { histogram.add(UnixTime(seconds: index * step), bytes: 1) }
    #expect(histogram.boundary(freeing: 100_000)?.bucket.records ?? 0 > 0)
    #expect(histogram.boundary(freeing: 100_001) == nil)
  }

  /// A small number of candidates leads to nested walks.
  @Test(arguments: spreads, [2, 16, 65_536])
  func oldestGoAndNoMoreThanItTakes(spread: ClosedRange<Int64>, maximumCandidates: Int) {
    var generator = SeededGenerator(seed: 2)
    for count in [1, 7, 300] {
      let times = (0..<count).map { _ in Int64.random(in: spread, using: &generator) }
      for goal in Set([1, count / 3, count - 1, count]) where goal > 0 {
        let evicted = evictions(of: times, bytes: 1, freeing: Int64(goal), maximumCandidates)
        #expect(evicted.count == goal)
        #expect(evicted.map { times[$0] }.sorted() == Array(times.sorted().prefix(goal)))
      }
    }
  }

  /// Records of several sizes: all records older than the youngest victim are evicted.
  @Test(arguments: spreads, [2, 16, 65_536])
  func nothingOlderSurvivesSomethingYounger(spread: ClosedRange<Int64>, maximumCandidates: Int) {
    var generator = SeededGenerator(seed: 3)
    let times = (0..<300).map { _ in Int64.random(in: spread, using: &generator) }
    let sizes = (0..<300).map { _ in Int64.random(in: 1...1000, using: &generator) }
    let total = sizes.reduce(0, +)
    for goal in [1, total / 4, total / 2, total - 1] {
      let evicted = evictions(of: times, sizes, freeing: goal, maximumCandidates)
      let freed = evicted.reduce(0) { $0 + sizes[$1] }
      #expect(freed >= goal)
      let youngest = evicted.map { times[$0] }.max() ?? .min
      let kept = Set(0..<300).subtracting(evicted)
      #expect(kept.allSatisfy { times[$0] >= youngest })
      let older = evicted.filter { times[$0] < youngest }.reduce(0) { $0 + sizes[$1] }
      #expect(older < goal)
      let ofThatSecond = evicted.filter { times[$0] == youngest }.map { sizes[$0] }
      #expect(freed - (ofThatSecond.max() ?? 0) < goal)
    }
  }

  @Test func nothingToFreeNeedsNoWalk() {
    var plan = EvictionPlan<Int>()
    plan.measure(UnixTime(seconds: 1), bytes: 1)
    #expect(plan.start(freeing: 0) == false)
    #expect(plan.start(freeing: -1) == false)
  }

  /// More must be freed than was measured, because most records are locked.
  @Test func allGoesWhereAllDoesNotSuffice() {
    #expect(evictions(of: [1, 5, 3], bytes: 1, freeing: 100, 16).count == 3)
  }
}

/// Runs a plan to its end.
///
/// - Returns: The indices of the evicted records, each once.
private func evictions(
  of times: [Int64], _ sizes: [Int64]? = nil, bytes: Int64 = 1, freeing goal: Int64, _ maximumCandidates: Int
) -> [Int] {
  var plan = EvictionPlan<Int>(maximumCandidates: maximumCandidates)
  var evicted: [Int] = []
  func size(_ index: Int) -> Int64 { sizes?[index] ?? bytes }
  for index in times.indices { plan.measure(UnixTime(seconds: times[index]), bytes: size(index)) }
  guard plan.start(freeing: goal) else { return [] }
  var walks = 0
  var needsWalk = true
  while needsWalk {
    walks += 1
    // Each walk narrows the boundary's range by a factor of thousands: from 2^64 seconds to one after six walks.
    guard walks < 10 else {
      Issue.record("no end of walks")
      return evicted
    }
    // In a dry run, the next walk visits all records again, in any order.
    for index in walks.isMultiple(of: 2) ? times.indices.reversed() : Array(times.indices) {
      guard case .evict = plan.decide(UnixTime(seconds: times[index]), bytes: size(index), index) else { continue }
      #expect(!evicted.contains(index))
      evicted.append(index)
      plan.didFree(bytes: size(index))
    }
    let rest = plan.finishWalk()
    for index in rest.candidates where plan.bytesToFree > 0 {
      #expect(!evicted.contains(index))
      evicted.append(index)
      plan.didFree(bytes: size(index))
    }
    needsWalk = rest.needsWalk
  }
  return evicted
}
