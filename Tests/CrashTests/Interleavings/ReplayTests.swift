import TestSupport
import Testing

/// The seed determines the sample of faults that a run injects.
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
