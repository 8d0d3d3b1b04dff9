internal import Synchronization

/// How many files a process keeps open only to spare itself opening them again. Those that it may have open are its own, so
/// they are few beside them, however many caches it has.
package final class OpenFileBudget: Sendable {
  private let limit: Int
  private let taken = Atomic(0)

  package init(limit: Int) { self.limit = limit }

  package static let ofProcess = OpenFileBudget(limit: share(of: CurrentProcess.openFileLimit))

  /// A 64th of the open files that a process may have, and at most 256.
  ///
  /// - Parameter openFileLimit: nil without a limit.
  package static func share(of openFileLimit: Int?) -> Int { min(256, (openFileLimit ?? .max) / 64) }

  /// - Returns: false if there are as many as may be.
  package func take() -> Bool {
    if taken.wrappingAdd(1, ordering: .relaxed).newValue <= limit { return true }
    giveBack(1)
    return false
  }

  package func giveBack(_ count: Int) { taken.wrappingSubtract(count, ordering: .relaxed) }
}
