import BlobStore
import Testing

/// Spec/Eviction.md: the chunks that a pass empties.
@Suite struct PackEvictionPlanTests {
  /// Returns a demand for chunks of 1,000 bytes and a limit of 100,000.
  private func demand(live: Int64 = 80_000, free: Int = 0, wanted: Int = 1) -> PackEvictionPlan.Demand {
    PackEvictionPlan.Demand(
      liveByteCount: live, limitByteCount: 100_000, chunkByteCount: 1000, freeChunkCount: free, wantedChunkCount: wanted
    )
  }

  /// - Parameter staying: The bytes that stay at each level from 0. The last element applies to all further levels.
  private func chunk(
    _ number: Int, live: Int64 = 500, staying: [UInt32], age: Int = 1, isOver: Bool = false
  )
    -> PackEvictionPlan.Chunk
  {
    var counts = SIMD16<UInt32>(repeating: staying.last ?? 0)
    for (level, count) in staying.enumerated() { counts[level] = count }
    return PackEvictionPlan.Chunk(
      number: number, liveByteCount: live, stayingByteCounts: counts, age: age, isOver: isOver)
  }

  @Test func nothingIsEmptiedWhileEnoughIsFree() {
    let plan = PackEvictionPlan([chunk(1, staying: [100])], demand(free: 1))
    #expect(plan.emptied.isEmpty)
    #expect(plan.whole.isEmpty)
  }

  /// The room of chunks in which nothing stays counts toward the demand.
  @Test(arguments: [(0, false), (500, true)] as [(Int64, Bool)])
  func chunksWithoutAnythingThatStaysAreFreedWhole(live: Int64, isOver: Bool) {
    let plan = PackEvictionPlan(
      [chunk(1, live: live, staying: [500], isOver: isOver), chunk(2, staying: [100])], demand(wanted: 1))
    #expect(plan.whole == [1])
    #expect(plan.emptied.isEmpty)
  }

  @Test(arguments: [(0, 0), (85_000, 0), (91_500, 0.4), (98_000, 0.8), (100_000, 0.8)] as [(Int64, Double)])
  func evictionSetsInBeforeTheLimit(live: Int64, share: Double) {
    let demand = demand(live: live)
    #expect(abs(demand.share(atLevel: 8) - share) < 0.000_1)
    #expect(abs(demand.share(atLevel: 4) - share / 2) < 0.000_1)
    #expect(demand.share(atLevel: 0) == 0)
  }

  @Test func theEmptiestGoesFirst() {
    let plan = PackEvictionPlan(
      [chunk(1, staying: [300]), chunk(2, staying: [100]), chunk(3, staying: [200])], demand(wanted: 1))
    #expect(plan.emptied == [2, 3])
    #expect(plan.level == 0)
  }

  /// An age that is four times as high counts double.
  @Test(arguments: [(4, [2, 1]), (2, [1, 2]), (1, [1, 2])] as [(Int, [Int])])
  func anOlderChunkGoesBeforeOneThatIsALittleEmptier(age: Int, order: [Int]) {
    let chunks = [chunk(1, staying: [200], age: 1), chunk(2, staying: [300], age: age)]
    #expect(PackEvictionPlan(chunks, demand()).emptied == order)
  }

  @Test func aFullChunkBringsNoRoom() {
    #expect(PackEvictionPlan([chunk(1, live: 1000, staying: [1000])], demand(wanted: 1)).emptied.isEmpty)
  }

  /// At most 350 bytes per 1,000 bytes of room may be moved. Levels apply only if the cache is full enough.
  @Test(arguments: [(90_000, 2), (84_999, 0)] as [(Int64, Int)])
  func theLeastLevelIsTakenThatCostsLittle(live: Int64, level: Int) {
    let chunks = (1...4).map { chunk($0, live: 900, staying: [800, 500, 250, 100]) }
    #expect(PackEvictionPlan(chunks, demand(live: live)).level == level)
  }

  @Test func whereNoLevelIsCheapTheGreatestIsTaken() {
    let plan = PackEvictionPlan((1...4).map { chunk($0, live: 900, staying: [800, 700]) }, demand(live: 95_000))
    #expect(plan.level == PackEvictionPlan.levelCount - 1)
    #expect(plan.emptied == [1, 2, 3, 4])
  }

  /// 98,000 bytes may stay, so 600 bytes must be evicted, although chunks are free.
  @Test func whatIsTooMuchHasToGo() {
    let chunks = (1...9).map { chunk($0, live: 500, staying: [500, 300]) }
    let plan = PackEvictionPlan(chunks, demand(live: 98_600, free: 5))
    #expect(plan.level > 0)
    #expect(plan.emptied.count == 3)
  }

  /// Moving records would be cheap here, but would not reduce the live bytes.
  @Test func movingDoesNotReplaceEvicting() {
    let plan = PackEvictionPlan(
      (1...9).map { chunk($0, live: 100, staying: [100, 50]) }, demand(live: 98_200, free: 5))
    #expect(plan.level == 1)
    #expect(plan.emptied.count == 4)
  }

  @Test func whatIsOverIsNotEvictedTwice() {
    let plan = PackEvictionPlan(
      [chunk(1, live: 600, staying: [0], isOver: true), chunk(2, staying: [500, 0])], demand(live: 98_600, wanted: 1))
    #expect(plan.whole == [1])
    #expect(plan.emptied.isEmpty)
  }

  @Test func theOrderOfTheInputDoesNotMatter() {
    let chunks = (0..<20).map { chunk($0, staying: [UInt32($0 * 37 % 5) * 100], age: 1 + $0 % 3) }
    let plan = PackEvictionPlan(chunks, demand(wanted: 9))
    #expect(PackEvictionPlan(chunks.reversed(), demand(wanted: 9)).emptied == plan.emptied)
    #expect(Set(plan.emptied).count == plan.emptied.count)
  }

  /// With a limit of zero, as much is evicted as at a limit that is reached.
  @Test func aLimitOfNothingEvicts() {
    var demand = demand()
    demand.limitByteCount = 0
    #expect(demand.share(atLevel: 8) == 0.8)
  }
}
