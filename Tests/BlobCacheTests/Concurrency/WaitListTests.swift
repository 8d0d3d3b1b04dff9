@testable import BlobCache
import TestSupport
import Testing

@Suite struct WaitListTests {
  private func line(_ elements: [(Int, Int)]) -> (WaitList<Int>, [WaitList<Int>.Ticket]) {
    var line = WaitList<Int>(priorities: 4)
    let tickets = elements.map { element, priority in
      let ticket = line.ticket()
      line.append(element, ticket, priority: priority)
      return ticket
    }
    return (line, tickets)
  }

  private func drained(_ line: WaitList<Int>) -> [Int] {
    var line = line
    var elements: [Int] = []
    while let element = line.popFirst() { elements.append(element) }
    #expect(line.isEmpty)
    return elements
  }

  @Test func higherPrioritiesComeFirst() {
    #expect(drained(line([(1, 3), (2, 0), (3, 1), (4, 0)]).0) == [2, 4, 3, 1])
  }

  @Test func whoLeavesIsPassedOver() {
    var (line, tickets) = line([(1, 0), (2, 0), (3, 0)])
    #expect(line.remove(tickets[1]) == 2)
    #expect(line.remove(tickets[1]) == nil)
    #expect(line.count == 2)
    #expect(drained(line) == [1, 3])
  }

  @Test func whoIsRaisedKeepsItsPlaceByAge() {
    var (line, tickets) = line([(1, 2), (2, 0), (3, 2), (4, 0)])
    line.raise(tickets[2], to: 0)
    line.raise(tickets[3], to: 2)
    #expect(drained(line) == [2, 3, 4, 1])
  }

  /// A3.
  @Test func whoHasWaitedLongestHasEveryEighthTurn() {
    // New entries with the highest priority do not starve older entries of a lower priority.
    var (line, _) = line([(-1, 2), (-2, 1)] + (0..<20).map { ($0, 0) } + (20..<40).map { ($0, 3) })
    let first = (0..<16).compactMap { _ in line.popFirst() }
    #expect(first == [0, 1, 2, 3, 4, 5, 6, -1, 7, 8, 9, 10, 11, 12, 13, -2])
  }

  @Test func everyEighthTurnIsOfTheLowestPriorityThatCameFirst() {
    var (line, _) = line([(-1, 3)] + (0..<20).map { ($0, 0) })
    let first = (0..<8).compactMap { _ in line.popFirst() }
    #expect(first == [0, 1, 2, 3, 4, 5, 6, -1])
  }

  /// Compares the wait list with a model that searches an array.
  @Test func randomOperationsMatchTheModel() {
    var generator = SeededGenerator(seed: SeededGenerator.announcedSeed(for: "WaitList", environment: [:]))
    var line = WaitList<Int>()
    var model: [(Int, WaitList<Int>.Ticket)] = []
    for number in 0..<10_000 {
      switch Int.random(in: 0..<10, using: &generator) {
      case ..<5:
        let ticket = line.ticket()
        line.append(number, ticket)
        model.append((number, ticket))
      case ..<8:
        #expect(line.popFirst() == model.first?.0)
        if !model.isEmpty { model.removeFirst() }
      default:
        guard let index = model.indices.randomElement(using: &generator) else { continue }
        let (element, ticket) = model.remove(at: index)
        #expect(line.remove(ticket) == element)
      }
      #expect(line.count == model.count)
    }
  }

  @Test func someLeaveTogetherAndTheOthersStay() {
    var list = WaitList<Int>(priorities: 2)
    let tickets = (0..<6).map { number in
      let ticket = list.ticket()
      list.append(number, ticket, priority: number % 2)
      return ticket
    }
    #expect(list.removeAll { $0 < 3 } == [0, 2, 1])
    #expect(list.count == 3 && list.remove(tickets[1]) == nil)
    #expect(list.removeAll() == [4, 3, 5])
    #expect(list.isEmpty && list.removeAll().isEmpty)
  }

  /// A task that is cancelled before it waits is still resumed, exactly once.
  @Test func aCancelledTaskDoesNotWait() async {
    let turnstile = Turnstile()
    await #expect(throws: CancellationError.self) {
      try await turnstile.pass {
        let task = Task { try await turnstile.pass {} }
        task.cancel()
        try await task.value
      }
    }
    #expect(turnstile.waitingCount == 0)
  }

  @Test func aMomentThatHasComeIsNotWaitedFor() async {
    let moment = Moment()
    let waiting = Task { await moment.wait() }
    moment.come()
    await waiting.value
    await moment.wait()
  }
}
