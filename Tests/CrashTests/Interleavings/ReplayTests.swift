import TestSupport
import Testing

/// Which of very many faults a run tries is the seed's choice.
@Suite struct ReplayTests {
  @Test func aSeedReplaysItsSample() {
    let faults = Array(1...1000)
    func sample(_ seed: UInt64) -> [Int] {
      var generator = SeededGenerator(seed: seed)
      return faults.sampled(20, long: 20, &generator)
    }
    #expect(sample(5) == sample(5))
    #expect(sample(5) != sample(6))
    #expect(Set(sample(5)).count == 20)
  }
}
