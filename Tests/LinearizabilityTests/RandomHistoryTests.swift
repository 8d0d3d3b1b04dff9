import Linearizability
import TestSupport
import Testing

/// Histories that are correct by construction, and copies of them with one wrong answer.
@Suite struct RandomHistoryTests {
  /// Simulates a run in which each operation is called, takes effect and returns at random moments.
  ///
  /// - Returns: The operations with the moments at which they took effect, in that order.
  func history(_ count: Int, threads: Int, _ generator: inout SeededGenerator) -> [Operation] {
    struct Record {
      var value: UInt64 = 0
      var refCount: UInt32 = 0
    }
    var freeAt = [UInt64](repeating: 0, count: threads)
    var effects: [(moment: UInt64, called: UInt64, returned: UInt64, thread: Int)] = []
    for number in 0..<count {
      let thread = number % threads
      let called = freeAt[thread] + .random(in: 1...50, using: &generator)
      let moment = called + .random(in: 1...50, using: &generator)
      let returned = moment + .random(in: 1...50, using: &generator)
      freeAt[thread] = returned
      effects.append((moment, called, returned, thread))
    }
    effects.sort { ($0.moment, $0.thread) < ($1.moment, $1.thread) }
    var record = Record()
    var nextValue: UInt64 = 1
    return effects.map { effect in
      func observation() -> Operation.Observation {
        Operation.Observation(refCount: record.refCount, ttl: 0, updateTime: 100)
      }
      let request: Operation.Request
      let response: Operation.Response
      switch Int.random(in: 0..<10, using: &generator) {
      case 0..<5:
        request = .load(touching: false)
        response = record.value == 0 ? .notFound : .loaded(value: record.value, observation())
      case 5:
        request = .lock
        response = record.value == 0 ? .notFound : .done
        if record.value != 0 { record.refCount += 1 }
      case 6:
        request = .unlock
        response = record.value == 0 ? .notFound : record.refCount == 0 ? .notLocked : .done
        if record.refCount > 0 { record.refCount -= 1 }
      case 7:
        request = .remove
        response = record.value == 0 ? .notFound : .done
        record = Record()
      default:
        let keepingLocks = Bool.random(using: &generator)
        request = .store(value: nextValue, ttl: 0, locked: false, keepingLocks: keepingLocks)
        response = .done
        record = Record(value: nextValue, refCount: keepingLocks ? record.refCount : 0)
        nextValue += 1
      }
      return Operation(
        caller: "\(effect.thread)", request, response, called: effect.called, returned: effect.returned,
        firstSecond: 100, lastSecond: 100)
    }
  }

  @Test func whatIsRightByConstructionIsAccepted() {
    var generator = SeededGenerator(seed: SeededGenerator.announcedSeed(for: "whatIsRightByConstructionIsAccepted"))
    let checker = Checker(defaultTTL: 60)
    for threads in [1, 2, 5, 9] {
      for _ in 0..<20 {
        var operations = history(200, threads: threads, &generator)
        operations.shuffle(using: &generator)
        #expect(checker.firstViolation(in: operations) == nil)
      }
    }
  }

  @Test func aWrongCountOrValueIsFound() {
    var generator = SeededGenerator(seed: SeededGenerator.announcedSeed(for: "aWrongCountOrValueIsFound"))
    let checker = Checker(defaultTTL: 60)
    var tried = 0
    while tried < 40 {
      var operations = history(200, threads: 4, &generator)
      let number = Int.random(in: 0..<operations.count, using: &generator)
      guard case .loaded(let value, var observation) = operations[number].response else { continue }
      tried += 1
      if Bool.random(using: &generator) {
        observation.refCount += 1000
        operations[number].response = .loaded(value: value, observation)
      } else {
        // The wrong answer is a value that is stored only later.
        let later = operations.last {
          if case .store = $0.request { $0.called > operations[number].returned } else { false }
        }
        guard case .store(let value, _, _, _)? = later?.request else { continue }
        operations[number].response = .loaded(value: value, observation)
      }
      #expect(checker.firstViolation(in: operations) != nil)
    }
  }

  /// Compares small histories with random answers with an exhaustive search of all orders.
  @Test func agreesWithTryingAllOrders() {
    var generator = SeededGenerator(seed: SeededGenerator.announcedSeed(for: "agreesWithTryingAllOrders"))
    let checker = Checker(defaultTTL: 60)
    var accepted = 0
    for _ in 0..<600 {
      var operations = history(5, threads: 4, &generator)
      // Two answers are exchanged, so that histories are wrong about as often as right.
      let number = Int.random(in: 0..<operations.count, using: &generator)
      let other = Int.random(in: 0..<operations.count, using: &generator)
      let response = operations[number].response
      if operations[number].request == operations[other].request {
        operations[number].response = operations[other].response
        operations[other].response = response
      } else if Bool.random(using: &generator) {
        operations[number].response = .unknown
      } else if case .loaded(let value, var observation) = response {
        observation.refCount ^= 1
        operations[number].response = .loaded(value: value, observation)
      }
      let isLinearizable = AllOrders(operations).isLinearizable
      #expect((checker.firstViolation(in: operations) == nil) == isLinearizable, "\(operations)")
      if isLinearizable { accepted += 1 }
    }
    #expect(accepted > 100 && accepted < 590)
  }
}

/// The definition of linearizability: every order that respects time, combined with every outcome of the operations
/// that were cut off.
private struct AllOrders {
  let operations: [Operation]

  init(_ operations: [Operation]) { self.operations = operations }

  var isLinearizable: Bool { canGoOn(done: [], value: 0, refCount: 0) }

  private func canGoOn(done: Set<Int>, value: UInt64, refCount: UInt32) -> Bool {
    let rest = operations.indices.filter { !done.contains($0) }
    if rest.isEmpty { return true }
    for next in rest {
      // An operation is next only if no remaining operation returned before its call.
      if rest.contains(where: { operations[$0].returned < operations[next].called }) { continue }
      let after = done.union([next])
      let operation = operations[next]
      if operation.response == .unknown, canGoOn(done: after, value: value, refCount: refCount) { return true }
      let isThere = value != 0
      switch (operation.request, operation.response) {
      case (_, .notFound): if !isThere, canGoOn(done: after, value: value, refCount: refCount) { return true }
      case (.load, .loaded(let seen, let observation)):
        if isThere, seen == value, observation.refCount == refCount,
          canGoOn(done: after, value: value, refCount: refCount)
        {
          return true
        }
      case (.store(let new, _, _, let keepingLocks), _):
        if canGoOn(done: after, value: new, refCount: keepingLocks ? refCount : 0) { return true }
      case (.unlock, .notLocked):
        if isThere, refCount == 0, canGoOn(done: after, value: value, refCount: refCount) { return true }
      case (.lock, _): if isThere, canGoOn(done: after, value: value, refCount: refCount + 1) { return true }
      case (.unlock, _):
        if isThere, refCount > 0, canGoOn(done: after, value: value, refCount: refCount - 1) { return true }
      case (.remove, _): if isThere, canGoOn(done: after, value: 0, refCount: 0) { return true }
      default: break
      }
    }
    return false
  }
}
