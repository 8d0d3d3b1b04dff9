internal import Locks

/// First come, first served, by priority; a waiting element may also leave.
///
/// Every eighth turn goes to the element that has waited longest, of any priority, so that none waits for ever.
package struct WaitList<Element> {
  /// What an element is known by until it has had its turn.
  package struct Ticket: Hashable, Sendable {
    fileprivate var number: UInt64
  }

  /// The elements of one priority. Numbers between the first and the last that are missing have left.
  fileprivate struct Row {
    var first: UInt64 = 0
    var elements: [UInt64: Element] = [:]

    /// The number of the element that has waited longest; nil in an empty line.
    mutating func oldest() -> UInt64? {
      guard !elements.isEmpty else { return nil }
      while elements[first] == nil { first += 1 }
      return first
    }
  }

  private var rows: [Row]
  private var nextNumber: UInt64 = 0
  private var turns: UInt8 = 0
  private static var fairTurn: UInt8 { 8 }

  package private(set) var count = 0
  package var isEmpty: Bool { count == 0 }

  /// - Parameter priorities: how many there are; 0 is the highest.
  package init(priorities: Int = 1) {
    rows = Array(repeating: Row(), count: priorities)
  }

  /// A number for an element that will come, by which it can be told to leave.
  package mutating func ticket() -> Ticket {
    defer { nextNumber += 1 }
    return Ticket(number: nextNumber)
  }

  /// - Complexity: amortised O(1).
  package mutating func append(_ element: Element, _ ticket: Ticket, priority: Int = 0) {
    if rows[priority].elements.isEmpty { rows[priority].first = ticket.number }
    rows[priority].first = min(rows[priority].first, ticket.number)
    rows[priority].elements[ticket.number] = element
    count += 1
  }

  /// - Returns: nil if the element has had its turn, or left.
  package mutating func remove(_ ticket: Ticket) -> Element? {
    for index in rows.indices {
      guard let element = rows[index].elements.removeValue(forKey: ticket.number) else { continue }
      count -= 1
      return element
    }
    return nil
  }

  /// Removes the elements for which a predicate holds, the oldest of each priority first.
  package mutating func removeAll(where isIncluded: (Element) -> Bool = { _ in true }) -> [Element] {
    guard count > 0 else { return [] }
    var removed: [Element] = []
    for index in rows.indices {
      let elements = rows[index].elements
      for number in elements.keys.sorted() {
        guard let element = elements[number], isIncluded(element) else { continue }
        rows[index].elements[number] = nil
        removed.append(element)
      }
    }
    count -= removed.count
    return removed
  }

  /// Moves an element up to a higher priority, where it keeps its place by age.
  package mutating func raise(_ ticket: Ticket, to priority: Int) {
    for index in rows.indices where index > priority {
      guard let element = rows[index].elements.removeValue(forKey: ticket.number) else { continue }
      count -= 1
      return append(element, ticket, priority: priority)
    }
  }

  /// - Complexity: amortised O(1), where few are moved.
  package mutating func popFirst() -> Element? {
    guard count > 0 else { return nil }
    turns = (turns + 1) % Self.fairTurn
    var chosen: (index: Int, number: UInt64)?
    for index in rows.indices {
      guard let number = rows[index].oldest(), number < chosen?.number ?? .max else { continue }
      chosen = (index, number)
      // Else the one of the highest priority.
      if turns != 0 { break }
    }
    guard let chosen else { return nil }
    count -= 1
    return rows[chosen.index].elements.removeValue(forKey: chosen.number)
  }
}

extension WaitList: Sendable where Element: Sendable {}
extension WaitList.Row: Sendable where Element: Sendable {}

/// A task that is suspended in a `WaitList`, and what it waits for.
struct SuspendedTask<Output: Sendable, Note: Sendable>: Sendable {
  let note: Note
  let continuation: CheckedContinuation<Output, any Error>
}

/// Suspends the current task until its continuation is resumed.
///
/// - Parameters:
///   - enter: puts the continuation into a list, or resumes it.
///   - leave: takes the continuation out of the list and resumes it, if it is there. It is called when the task is
///     cancelled, perhaps before `enter`, and perhaps twice.
func withCancellableContinuation<Output: Sendable>(
  _ enter: (CheckedContinuation<Output, any Error>) -> Void, onCancel leave: @Sendable () -> Void
) async throws -> Output {
  try await withTaskCancellationHandler {
    try await withCheckedThrowingContinuation { continuation in
      enter(continuation)
      // A task that was cancelled before it entered the list was not found there by the handler.
      if Task.isCancelled { leave() }
    }
  } onCancel: {
    leave()
  }
}

extension Lock where Value: Sendable {
  /// Suspends the current task in a list of the guarded value, until it is resumed or cancelled.
  ///
  /// - Parameters:
  ///   - list: where the task waits.
  ///   - note: what the task waits for.
  ///   - decide: called with the value locked. Returns the output of a task that need not wait; `nil` makes it wait.
  /// - Throws: `CancellationError` if the task is cancelled while it waits; what its continuation is resumed with.
  func wait<Output: Sendable, Note: Sendable>(
    in list: any WritableKeyPath<Value, WaitList<SuspendedTask<Output, Note>>> & Sendable, for note: Note,
    unless decide: (inout Value, WaitList<SuspendedTask<Output, Note>>.Ticket) -> Output?
  ) async throws -> Output {
    let ticket = withLock { $0[keyPath: list].ticket() }
    return try await withCancellableContinuation { continuation in
      let output = withLock { value -> Output? in
        if let output = decide(&value, ticket) { return output }
        value[keyPath: list].append(SuspendedTask(note: note, continuation: continuation), ticket)
        return nil
      }
      if let output { continuation.resume(returning: output) }
    } onCancel: {
      withLock { $0[keyPath: list].remove(ticket) }?.continuation.resume(throwing: CancellationError())
    }
  }
}

/// Lets one task through at a time. The others wait without a thread, first come, first served.
final class Turnstile: Sendable {
  private struct State {
    var isTaken = false
    var line = WaitList<SuspendedTask<Void, Void>>()
  }

  private let state = Lock(State())

  /// Tasks that wait; for tests.
  var waitingCount: Int { state.withLock { $0.line.count } }

  /// Runs something once it is the task's turn.
  ///
  /// - Throws: what `body` throws; `CancellationError` if the task is cancelled while it waits.
  func pass<Result>(_ body: () async throws -> Result) async throws -> Result {
    try await state.wait(in: \.line, for: ()) { state, _ in
      guard !state.isTaken else { return nil }
      state.isTaken = true
      return ()
    }
    defer { admitNext() }
    return try await body()
  }

  private func admitNext() {
    let next = state.withLock { state in
      let next = state.line.popFirst()
      state.isTaken = next != nil
      return next
    }
    next?.continuation.resume()
  }
}

/// Something that happens once, and that any number of tasks wait for, each until it is cancelled.
final class Moment: Sendable {
  private struct State {
    var hasCome = false
    var waiting = WaitList<SuspendedTask<Void, Void>>()
  }

  private let state = Lock(State())

  func come() {
    let waiting = state.withLock { state in
      state.hasCome = true
      return state.waiting.removeAll()
    }
    for task in waiting { task.continuation.resume() }
  }

  /// Returns once it has come, or the task is cancelled.
  func wait() async {
    // The only error is the cancellation of the task, which ends the wait.
    try? await state.wait(in: \.waiting, for: ()) { state, _ in state.hasCome ? () : nil }
  }
}
