import Testing

@testable import BlobStore

/// Spec/Uses.md: the counters and marks of a block.
@Suite struct UseCellsTests {
  private let cells = UseCells(0x1234_5678_9ABC_DEF0)

  private func counting(in counters: SIMD4<UInt64>) -> SIMD4<UInt64> {
    var counted = counters
    let least = UInt64(cells.count(in: counters))
    for index in 0..<4 { counted[index] = cells.counting(index, in: counters[index], least: least) }
    return counted
  }

  private func marking(_ marks: SIMD4<UInt64>, as mark: UInt64) -> SIMD4<UInt64> {
    var marked = marks
    for index in 0..<4 { marked[index] = cells.marking(index, in: marks[index], as: mark) }
    return marked
  }

  @Test func aUseCountsUpToFifteen() {
    var counters = SIMD4<UInt64>.zero
    for count in 1...15 {
      counters = counting(in: counters)
      #expect(cells.count(in: counters) == count)
    }
    #expect(counting(in: counters) == counters)
  }

  /// Uses of another key that shares a counter are not counted twice.
  @Test func onlyTheLeastCountersCountMore() {
    let one = counting(in: .zero)
    var mixed = one
    mixed[2] = 0
    #expect(cells.count(in: mixed) == 0)
    #expect(counting(in: mixed) == one)
  }

  @Test func aMarkTellsItsAge() {
    let epoch = UsesEpoch(number: 20)
    #expect(cells.age(in: .zero, at: epoch) == nil)
    let marks = marking(.zero, as: epoch.mark)
    for age in 0..<15 { #expect(cells.age(in: marks, at: UsesEpoch(number: 20 + UInt64(age))) == UInt64(age)) }
  }

  @Test func theOldestMarkHolds() {
    let old = marking(.zero, as: UsesEpoch(number: 3).mark)
    var mixed = marking(.zero, as: UsesEpoch(number: 5).mark)
    mixed[1] = old[1]
    #expect(cells.age(in: mixed, at: UsesEpoch(number: 6)) == 3)
  }

  /// The sweep visits a mark again after eight epochs, before the mark would stand for a later epoch.
  @Test func marksAreForgottenBeforeTheyStandForAnotherEpoch() {
    for age in 0..<15 as Range<UInt64> {
      let marks = UsesEpoch(number: 100).mark
      let kept = UsesEpoch(number: 100 + age).forgettingOld(marks)
      #expect(kept == (age <= 6 ? marks : 0))
    }
  }

  @Test func layoutsAreOfPowersOfTwo() {
    #expect(UsesLayout(records: 0).recordCapacity == 128)
    #expect(UsesLayout(records: 129).recordCapacity == 256)
    #expect(UsesLayout(records: .max).recordCapacity == UsesLayout.mostRecords)
    let layout = UsesLayout(records: 5000)
    #expect(UsesLayout(byteCount: Int64(layout.byteCount)) == layout)
    for size in [0, 4096, 4096 + 64, layout.byteCount - 64, layout.byteCount + 64, Int(Int32.max)] {
      #expect(UsesLayout(byteCount: Int64(size)) == nil)
    }
  }
}
