internal import BlobRecord
internal import Locks

/// The current task's production, and the waits between productions, by which deadlocks are detected.
///
/// A producer must not wait for a production that waits for it. A task-local value identifies the production of a
/// task. Child tasks inherit it, but detached tasks do not, so a wait for a detached task cannot be recognized.
enum ProductionWaits {
  /// The production of the current task. If it has already ended, nothing waits for it.
  @TaskLocal static var current: Production?

  private static let waits = Lock(WaitGraph<Production>())

  static func producing<Result>(_ production: Production, _ body: () async throws -> Result) async throws -> Result {
    try await $current.withValue(production, operation: body)
  }

  /// Adds a wait, or throws `recursiveProduction` if it would close a cycle.
  static func beginWait(of production: Production?, for awaited: Production) throws(BlobCacheError) {
    guard let production else { return }
    let isNoted = waits.withLock { waits in
      // An ended production has no waits, even if one of its tasks waits.
      production.hasEnded || waits.add(from: production, to: awaited)
    }
    guard isNoted else {
      throw BlobCacheError(
        .recursiveProduction, "its producer waits for the production that asks for it", key: awaited.name.key)
    }
  }

  static func endWait(of production: Production?, for awaited: Production) {
    guard let production else { return }
    waits.withLock { $0.remove(from: production, to: awaited) }
  }

  /// Removes the waits of a production that has ended or was abandoned. Its tasks may continue to wait.
  static func end(_ production: Production) {
    waits.withLock { waits in
      production.end()
      waits.removeAll(from: production)
    }
  }

  static func waitCount(where isCounted: (Production) -> Bool) -> Int { waits.withLock { $0.count(where: isCounted) } }
}

/// A graph of waits between nodes, without cycles.
struct WaitGraph<Node: Hashable & Sendable>: Sendable {
  /// The number of waits from one node to another.
  private var waits: [Node: [Node: Int]] = [:]

  /// Adds a wait, or returns `false` if it would close a cycle, in O(waiting nodes).
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

  mutating func removeAll(from waiter: Node) { waits[waiter] = nil }

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
