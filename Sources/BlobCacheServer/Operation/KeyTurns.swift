internal import BlobRecord
internal import Locks

/// Lets the changes of one key look and act one after the other, within this process.
///
/// So a condition that holds when a change looks still holds when it acts, whatever other requests want.
final class KeyTurns: Sendable {
  private typealias Waiter = CheckedContinuation<Void, Never>

  /// Those that wait for a key, in their order; no entry for a key that nobody changes.
  private let waiters = Lock<[BlobKey: [Waiter]]>([:])

  /// Runs a change when it is its turn. A cancelled task waits on: each turn ends by itself.
  func inTurn<Result>(_ key: BlobKey, _ change: () async throws -> Result) async rethrows -> Result {
    await begin(key)
    defer { end(key) }
    return try await change()
  }

  private func begin(_ key: BlobKey) async {
    await withCheckedContinuation { (waiter: Waiter) in
      let isFree = waiters.withLock { waiters in
        guard waiters[key] != nil else {
          waiters[key] = []
          return true
        }
        waiters[key]?.append(waiter)
        return false
      }
      if isFree { waiter.resume() }
    }
  }

  private func end(_ key: BlobKey) {
    let next: Waiter? = waiters.withLock { waiters in
      guard waiters[key]?.isEmpty == false else {
        waiters[key] = nil
        return nil
      }
      return waiters[key]?.removeFirst()
    }
    next?.resume()
  }
}
