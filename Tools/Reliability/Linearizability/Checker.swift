/// Decides whether the history of one key is linearizable: whether its operations have an order in which each answer
/// is correct, and in which an operation that returned before another was called precedes it.
///
/// The search is by J. Wing and C. Gong, "Testing and Verifying Concurrent Objects" (Journal of Parallel and
/// Distributed Computing 17, 1993), with the memoization of G. Lowe, "Testing for linearizability" (Concurrency and
/// Computation: Practice and Experience 29, 2017), in its just-in-time form. It processes calls and returns by time
/// and follows all orders simultaneously. A possible order is a value of the key and the set of pending operations
/// that have taken effect. An operation takes effect when it returns, or when it is required by another that returns.
/// So a moment without pending operations leaves only the possible contents, and memory does not grow.
///
/// Operations on different keys are independent, so each key is checked separately.
public struct Checker: Sendable {
  /// The time to live, in seconds, of records with ttl 0.
  public var defaultTTL: UInt32
  /// The maximum number of possibilities to follow.
  public var possibilityLimit: Int

  public init(defaultTTL: UInt32, possibilityLimit: Int = 200_000) {
    self.defaultTTL = defaultTTL
    self.possibilityLimit = possibilityLimit
  }

  /// - Parameter operations: The operations in any order. Initially there must be no record.
  /// - Returns: The first operation that cannot be explained, or `nil` if all can.
  /// - Complexity: O(*n* log *n*) in the number of operations, exponential in the number of concurrent changes.
  public func firstViolation(in operations: [Operation]) -> Violation? {
    // One order that explains everything is sufficient, so the likely ones are tried first. All are followed only if
    // these do not explain the history.
    guard firstViolation(in: operations, looksAhead: true, cutsAt: possibilityLimit / 25) != nil,
      let violation = firstViolation(in: operations, looksAhead: true)
    else { return nil }
    // With look-ahead, the search fails early at an operation that hides a value. Without it, the search fails at the
    // load that sees the value again, which is a better explanation.
    let seen = firstViolation(in: operations, looksAhead: false)
    return seen.flatMap { $0.isUndecided ? nil : $0 } ?? violation
  }

  /// - Parameter cut: The number of possibilities after which the less likely ones are dropped, or `nil` to fail at
  ///   `possibilityLimit` instead. A violation after a cut may be wrong.
  private func firstViolation(in operations: [Operation], looksAhead: Bool, cutsAt cut: Int? = nil) -> Violation? {
    var search = Search(checker: self, looksAhead ? operations : [], cut)
    for event in Event.inOrder(of: operations) {
      let operation = operations[Int(event.index)]
      search.now = event.time
      if event.isReturn {
        if let violation = search.finish(event.index, operation) { return violation }
      } else {
        search.begin(event.index, operation)
      }
    }
    return nil
  }
}

private struct Event {
  var time: UInt64
  var isReturn: Bool
  var index: UInt32

  /// Sorts the calls and returns by time. At the same nanosecond a call precedes a return, which allows more orders.
  static func inOrder(of operations: [Operation]) -> [Event] {
    var events: [Event] = []
    events.reserveCapacity(operations.count * 2)
    for (index, operation) in operations.enumerated() {
      events.append(Event(time: operation.called, isReturn: false, index: UInt32(index)))
      events.append(
        Event(time: max(operation.returned, operation.called), isReturn: true, index: UInt32(index)))
    }
    events.sort { ($0.time, $0.isReturn ? 1 : 0, $0.index) < ($1.time, $1.isReturn ? 1 : 0, $1.index) }
    return events
  }
}

/// One of the possible pasts.
private struct Possibility: Hashable {
  var register: Register
  /// The operations that have taken effect, with one bit per place.
  var effective: UInt64
}

/// The possibilities at one moment of a history.
private struct Search {
  private struct Place {
    var index: UInt32
    var operation: Operation
    /// The latest second at which an overlapping load may touch the record that this operation stores.
    var touchedUntil: UInt32
  }

  let checker: Checker
  private let cut: Int?
  /// The time of the current call or return.
  var now: UInt64 = 0
  /// The time of the call of the last load that saw a value. Every value is stored once, so a replaced value never
  /// reappears. It must not be replaced while such a load is still to come.
  private var lastSight: [UInt64: UInt64] = [:]
  private var possibilities: [Possibility] = [Possibility(register: .absent, effective: 0)]
  /// The pending operations, each in a place with a bit.
  private var places: [Place?] = []
  private var underWay = 0
  private var window: [Operation] = []

  /// - Parameter future: All operations, to know the ones that are still to come, or an empty array.
  init(checker: Checker, _ future: [Operation], _ cut: Int?) {
    self.checker = checker
    self.cut = cut
    for operation in future {
      guard let value = operation.seenValue else { continue }
      lastSight[value] = max(lastSight[value] ?? 0, operation.called)
    }
  }

  mutating func begin(_ index: UInt32, _ operation: Operation) {
    if underWay == 0 { window.removeAll(keepingCapacity: true) }
    if window.count >= 256 { window.removeFirst(128) }
    window.append(operation)

    var touchedUntil: UInt32 = 0
    for place in places.indices {
      guard let other = places[place]?.operation else { continue }
      if other.mayTouch { touchedUntil = max(touchedUntil, other.lastSecond) }
      if operation.mayTouch {
        places[place]!.touchedUntil = max(places[place]!.touchedUntil, operation.lastSecond)
      }
    }
    let new = Place(index: index, operation: operation, touchedUntil: touchedUntil)
    if let free = places.firstIndex(where: { $0 == nil }) {
      places[free] = new
    } else {
      precondition(places.count < 64, "more than 64 operations on one key at one time")
      places.append(new)
    }
    underWay += 1
    if operation.isHarmless {
      for number in possibilities.indices { settle(&possibilities[number]) }
      possibilities = Array(Set(possibilities))
    }
  }

  mutating func finish(_ index: UInt32, _ operation: Operation) -> Violation? {
    guard let place = places.firstIndex(where: { $0?.index == index }) else { return nil }
    let bit: UInt64 = 1 << UInt64(place)
    // An operation that need not take effect may not have done so.
    var explained = operation.isOptional ? Set(possibilities.filter { $0.effective & bit == 0 }) : []
    var met = Set(possibilities)
    // Breadth-first, because possibilities with few early effects exclude the fewest orders.
    var pending = possibilities
    var next = 0
    while next < pending.count {
      let possibility = pending[next]
      next += 1
      if possibility.effective & bit != 0 {
        explained.insert(Possibility(register: possibility.register, effective: possibility.effective & ~bit))
        continue
      }
      for other in places.indices where possibility.effective & (1 << UInt64(other)) == 0 {
        guard let candidate = places[other], !candidate.operation.isHarmless,
          let register = candidate.operation.effect(on: possibility.register, candidate.touchedUntil, checker),
          register.value == possibility.register.value || mayGiveWay(possibility)
        else { continue }
        let effective: UInt64 = candidate.operation.recurs ? 0 : 1 << UInt64(other)
        var after = Possibility(register: register, effective: possibility.effective | effective)
        settle(&after)
        if met.insert(after).inserted { pending.append(after) }
      }
      if let cut, met.count > cut, !explained.isEmpty { break }
      if met.count > checker.possibilityLimit {
        return violation(operation, isUndecided: true)
      }
    }
    // The operation has no bit, so each possibility that it has led to may be the final one.
    if operation.recurs { explained = met }
    guard !explained.isEmpty else { return violation(operation, isUndecided: false) }
    possibilities = Array(explained)
    if let cut, possibilities.count > cut / 4 {
      possibilities.sort { $0.effective.nonzeroBitCount < $1.effective.nonzeroBitCount }
      possibilities.removeLast(possibilities.count - cut / 4)
    }
    places[place] = nil
    underWay -= 1
    return nil
  }

  /// Applies the harmless operations. A load may widen the range of the update time, which other operations may then
  /// have seen, so this repeats until nothing changes.
  private func settle(_ possibility: inout Possibility) {
    var before: Register
    repeat {
      before = possibility.register
      for place in places.indices where possibility.effective & (1 << UInt64(place)) == 0 {
        guard let candidate = places[place], candidate.operation.isHarmless,
          let register = candidate.operation.effect(on: possibility.register, candidate.touchedUntil, checker)
        else { continue }
        possibility.register = register
        possibility.effective |= 1 << UInt64(place)
      }
    } while possibility.register != before
  }

  /// Returns whether all loads that saw the value have taken effect.
  private func mayGiveWay(_ possibility: Possibility) -> Bool {
    let value = possibility.register.value
    guard value != 0, let sight = lastSight[value] else { return true }
    guard sight <= now else { return false }
    return places.indices.allSatisfy { place in
      possibility.effective & (1 << UInt64(place)) != 0 || places[place]?.operation.seenValue != value
    }
  }

  private func violation(_ operation: Operation, isUndecided: Bool) -> Violation {
    Violation(
      operation: operation, possible: Array(Set(possibilities.map(\.register))), window: Array(window.suffix(64)),
      isUndecided: isUndecided)
  }
}

extension Operation {
  fileprivate func effect(on register: Register, _ touchedUntil: UInt32, _ checker: Checker) -> Register? {
    register.after(self, touchedUntil: touchedUntil, defaultTTL: checker.defaultTTL)
  }
}
