internal import BlobRecord
internal import Locks

/// The current task's production, and which production waits for which.
///
/// A producer must not wait for one that waits for it. A task knows its production by a task-local value, which its child
/// tasks inherit and detached ones do not. A producer that waits for a detached task cannot be recognized.
enum ProductionWaits {
  /// The production that the current task produces for. It may have ended: then nothing waits for it.
  @TaskLocal static var current: Production?

  private static let waits = Lock(WaitGraph<Production>())

  /// Runs the producer of a production.
  static func producing<Result>(_ production: Production, _ body: () async throws -> Result) async throws -> Result {
    try await $current.withValue(production, operation: body)
  }

  /// Notes that one production waits for another.
  ///
  /// - Throws: `recursiveProduction` where that waits for the first.
  static func beginWait(of production: Production?, for awaited: Production) throws(BlobCacheError) {
    guard let production else { return }
    let isNoted = waits.withLock { waits in
      // One that has ended has no more waits, though a task of it waits.
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

  /// Removes the waits of a production that has ended or was abandoned.
  ///
  /// Its tasks may wait on, but no longer for others that waited for it.
  static func end(_ production: Production) {
    waits.withLock { waits in
      production.end()
      waits.removeAll(from: production)
    }
  }

  /// The waits of productions that a predicate holds for; for tests.
  static func waitCount(where isCounted: (Production) -> Bool) -> Int { waits.withLock { $0.count(where: isCounted) } }
}

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
