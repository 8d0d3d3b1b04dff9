/// First come, first served, by priority; a waiting element may also leave.
///
/// Every eighth turn goes to the element that has waited longest, of any priority, so that none waits for ever.
package struct WaitingLine<Element> {
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

extension WaitingLine: Sendable where Element: Sendable {}
extension WaitingLine.Row: Sendable where Element: Sendable {}
