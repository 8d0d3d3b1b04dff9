internal import BlobRecord
internal import Locks

/// The current task's production, and which flight waits for which.
///
/// A producer must not wait for one that waits for it. A task knows its flight by a task-local value, which its child
/// tasks inherit and detached ones do not. A producer that waits for a detached task cannot be recognized.
enum ProductionChain {
  /// The flight that the current task produces for. It may have ended: then nothing waits for it.
  @TaskLocal static var current: Flight?

  private static let waits = Lock(WaitGraph<Flight>())

  /// Runs the producer of a flight.
  static func producing<Result>(_ flight: Flight, _ body: () async throws -> Result) async throws -> Result {
    try await $current.withValue(flight, operation: body)
  }

  /// Notes that one flight waits for another.
  ///
  /// - Throws: `recursiveProduction` where that waits for the first.
  static func beginWait(of flight: Flight?, for awaited: Flight) throws(BlobCacheError) {
    guard let flight else { return }
    let isNoted = waits.withLock { waits in
      // One that has ended has no more waits, though a task of it waits.
      flight.hasEnded || waits.add(from: flight, to: awaited)
    }
    guard isNoted else {
      throw BlobCacheError(
        .recursiveProduction, "its producer waits for the production that asks for it", key: awaited.name.key)
    }
  }

  static func endWait(of flight: Flight?, for awaited: Flight) {
    guard let flight else { return }
    waits.withLock { $0.remove(from: flight, to: awaited) }
  }

  /// Removes the waits of a flight that has landed or was abandoned.
  ///
  /// Its tasks may wait on, but no longer for others that waited for it.
  static func end(_ flight: Flight) {
    waits.withLock { waits in
      flight.end()
      waits.removeAll(from: flight)
    }
  }

  /// The waits of flights that a predicate holds for; for tests.
  static func waitCount(where isCounted: (Flight) -> Bool) -> Int { waits.withLock { $0.count(where: isCounted) } }
}
