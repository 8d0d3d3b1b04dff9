import TestSupport
import Testing

/// A seed reproduces the requests, and each thread of a run has a different sequence. The seed does not determine the
/// order in which threads and processes are answered.
@Suite struct ReplayTests {
  private func requests(seed: UInt64, worker: Int = 0, incarnation: Int = 0, thread: Int = 0) throws -> [Substring] {
    try TortureTool.lines([
      "requests", "--count", "500", "--seed", String(seed), "--worker", String(worker), "--incarnation",
      String(incarnation), "--thread", String(thread),
    ])
  }

  @Test func aSeedReplaysItsRequests() throws {
    let first = try requests(seed: 5)
    #expect(first.count == 500)
    #expect(try first == requests(seed: 5))
    #expect(try first != requests(seed: 6))
  }

  @Test func everyThreadHasItsOwnRequests() throws {
    let all = try [
      requests(seed: 5), requests(seed: 5, worker: 1), requests(seed: 5, incarnation: 1), requests(seed: 5, thread: 1),
    ]
    #expect(Set(all).count == all.count)
  }
}
