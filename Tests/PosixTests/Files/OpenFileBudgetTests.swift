import Posix
import Testing

@Suite struct OpenFileBudgetTests {
  /// The budget is small if the process may open only few files.
  @Test(arguments: [(nil, 16), (1 << 20, 16), (1024, 16), (512, 8), (64, 1), (63, 0), (0, 0)] as [(Int?, Int)])
  func budgetIsASmallShare(openFileLimit: Int?, share: Int) {
    #expect(OpenFileBudget.share(of: openFileLimit) == share)
  }

  @Test(arguments: 0..<4) func noMoreAreTakenThanThereAre(limit: Int) {
    let budget = OpenFileBudget(limit: limit)
    for _ in 0..<limit { #expect(budget.take()) }
    for _ in 0..<3 { #expect(!budget.take()) }
    budget.giveBack(limit)
    for _ in 0..<limit { #expect(budget.take()) }
    #expect(!budget.take())
  }
}
