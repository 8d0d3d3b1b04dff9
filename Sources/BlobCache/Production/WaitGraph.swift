/// Who waits for whom, without circles.
struct WaitGraph<Node: Hashable & Sendable>: Sendable {
  /// How often each waits for each.
  private var waits: [Node: [Node: Int]] = [:]

  /// - Returns: false, and nothing is added, if that would close a circle.
  /// - Complexity: O(those who wait).
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
