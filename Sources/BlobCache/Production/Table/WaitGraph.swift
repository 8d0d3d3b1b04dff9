/// Which node waits for which, without circles.
struct WaitGraph<Node: Hashable & Sendable>: Sendable {
  /// How often each waits for each.
  private var waits: [Node: [Node: Int]] = [:]

  /// - Returns: false, and nothing is added, if that would close a circle.
  /// - Complexity: O(waiting nodes).
  mutating func add(from waiter: Node, to awaited: Node) -> Bool {
    guard !leads(from: awaited, to: waiter) else { return false }
    waits[waiter, default: [:]][awaited, default: 0] += 1
    return true
  }

  mutating func remove(from waiter: Node, to awaited: Node) {
    guard let count = waits[waiter]?[awaited] else { return }
    waits[waiter]?[awaited] = count > 1 ? count - 1 : nil
    if waits[waiter]?.isEmpty == true { waits[waiter] = nil }
  }

  /// Forgets all that one waits for.
  mutating func removeAll(from waiter: Node) { waits[waiter] = nil }

  /// Those that a node for which the predicate holds has part in.
  func count(where isCounted: (Node) -> Bool) -> Int {
    waits.reduce(0) { sum, entry in
      sum + entry.value.keys.count { isCounted(entry.key) || isCounted($0) }
    }
  }

  private func leads(from start: Node, to end: Node) -> Bool {
    var met: Set<Node> = [start]
    var toVisit = [start]
    while let node = toVisit.popLast() {
      if node == end { return true }
      for next in waits[node, default: [:]].keys where met.insert(next).inserted { toVisit.append(next) }
    }
    return false
  }
}
