internal import Locks

/// A queue with priorities, first in, first out, from which a waiting element may also be removed.
///
/// At every eighth turn, the oldest element is next, whatever its priority, so that no element starves.
package struct WaitList<Element> {
  package struct Ticket: Hashable, Sendable {
    fileprivate var number: UInt64
  }

  /// The elements of one priority. Missing numbers belong to removed elements or to other priorities.
  fileprivate struct Row {
    var first: UInt64 = 0
    var elements: [UInt64: Element] = [:]

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

  /// - Parameter priorities: The number of priorities; 0 is the highest.
  package init(priorities: Int = 1) {
    rows = Array(repeating: Row(), count: priorities)
  }

  /// Returns a ticket for an element to add, by which the element can be removed.
  package mutating func ticket() -> Ticket {
    defer { nextNumber += 1 }
    return Ticket(number: nextNumber)
  }

  /// - Complexity: Amortised O(1).
  package mutating func append(_ element: Element, _ ticket: Ticket, priority: Int = 0) {
    if rows[priority].elements.isEmpty { rows[priority].first = ticket.number }
    rows[priority].first = min(rows[priority].first, ticket.number)
    rows[priority].elements[ticket.number] = element
    count += 1
  }

  /// - Returns: The element, or `nil` if it has had its turn or was removed.
  package mutating func remove(_ ticket: Ticket) -> Element? {
    for index in rows.indices {
      guard let element = rows[index].elements.removeValue(forKey: ticket.number) else { continue }
      count -= 1
      return element
    }
    return nil
  }

  /// Removes the elements that match a predicate, the oldest of each priority first.
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

  /// Moves an element up to a higher priority, where it is sorted by age.
  package mutating func raise(_ ticket: Ticket, to priority: Int) {
    for index in rows.indices where index > priority {
      guard let element = rows[index].elements.removeValue(forKey: ticket.number) else { continue }
      count -= 1
      return append(element, ticket, priority: priority)
    }
  }

  /// - Complexity: Amortised O(1) if few elements are moved.
  package mutating func popFirst() -> Element? {
    guard count > 0 else { return nil }
    turns = (turns + 1) % Self.fairTurn
    var chosen: (index: Int, number: UInt64)?
    for index in rows.indices {
      guard let number = rows[index].oldest(), number < chosen?.number ?? .max else { continue }
      chosen = (index, number)
      // Otherwise the oldest element of the highest priority is next.
      if turns != 0 { break }
    }
    guard let chosen else { return nil }
    count -= 1
    return rows[chosen.index].elements.removeValue(forKey: chosen.number)
  }
}

extension WaitList: Sendable where Element: Sendable {}
extension WaitList.Row: Sendable where Element: Sendable {}

/// A task that is suspended in a `WaitList`, and a note for the code that resumes it.
struct SuspendedTask<Output: Sendable, Note: Sendable>: Sendable {
  let note: Note
  let continuation: CheckedContinuation<Output, any Error>
}

/// Suspends the current task until its continuation is resumed.
///
/// - Parameters:
///   - enter: Adds the continuation to a list, or resumes it.
///   - leave: Removes the continuation from the list and resumes it, if it is there. It is called when the task is
///     cancelled, possibly before `enter`, and possibly twice.
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
  ///   - decide: Called with the value locked. Returns the output if the task need not wait, otherwise `nil`.
  ///   - didEnter: Called once the task is in the list.
  /// - Throws: `CancellationError` if the task is cancelled while it waits, or the error of its continuation.
  func wait<Output: Sendable, Note: Sendable>(
    in list: any WritableKeyPath<Value, WaitList<SuspendedTask<Output, Note>>> & Sendable, for note: Note,
    unless decide: (inout Value, WaitList<SuspendedTask<Output, Note>>.Ticket) -> Output?,
    didEnter: () -> Void = {}
  ) async throws -> Output {
    let ticket = withLock { $0[keyPath: list].ticket() }
    return try await withCancellableContinuation { continuation in
      let output = withLock { value -> Output? in
        if let output = decide(&value, ticket) { return output }
        value[keyPath: list].append(SuspendedTask(note: note, continuation: continuation), ticket)
        return nil
      }
      if let output { continuation.resume(returning: output) } else { didEnter() }
    } onCancel: {
      withLock { $0[keyPath: list].remove(ticket) }?.continuation.resume(throwing: CancellationError())
    }
  }
}

/// An asynchronous mutex: lets one task through at a time, in order of arrival, without blocking threads.
final class Turnstile: Sendable {
  private struct State {
    var isTaken = false
    var line = WaitList<SuspendedTask<Void, Void>>()
  }

  private let state = Lock(State())

  var waitingCount: Int { state.withLock { $0.line.count } }

  /// - Throws: Errors of `body`, or `CancellationError` if the task is cancelled while it waits.
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

/// An event that happens once, and that any number of tasks can wait for.
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

  /// Returns when the event has happened, or the task is cancelled.
  func wait() async {
    // The only error is the cancellation of the task, which ends the wait.
    try? await state.wait(in: \.waiting, for: ()) { state, _ in state.hasCome ? () : nil }
  }
}
