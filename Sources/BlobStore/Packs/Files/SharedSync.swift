internal import Locks
internal import Posix
internal import Synchronization

/// Syncs a file for all threads of a process, one call at a time.
///
/// The kernel reports a write error only once for an open file, so one of two concurrent calls could consume the
/// other's error. Each failure is therefore reported to all waiting threads. A thread makes no call if one started
/// after its last write.
final class SharedSync: Sendable {
  private struct Past: Sendable {
    /// The number of completed calls, which are numbered from 1.
    var ended = 0
    var lastFailure: (number: Int, error: FileError)?
  }

  private let past = Lock(Past())
  private let begun = Atomic(0)
  private let ended = Atomic(0)

  var hasFailed: Bool { past.withLock { $0.lastFailure != nil } }

  struct Moment {
    fileprivate let begun: Int
    fileprivate let ended: Int
  }

  func moment() -> Moment {
    let ended = ended.load(ordering: .acquiring)
    return Moment(begun: begun.load(ordering: .acquiring), ended: ended)
  }

  /// Returns once all bytes that were written before a moment, by default now, are on the medium.
  func run(since moment: Moment? = nil, _ sync: () throws(FileError) -> Void) throws(FileError) {
    let moment = moment ?? self.moment()
    try past.withLock { past throws(FileError) in
      // A call in progress may not include all of those bytes, so its failure counts here, but its success does not.
      let isDone = past.ended > moment.begun
      if !isDone {
        begun.store(past.ended + 1, ordering: .releasing)
        do throws(FileError) {
          try sync()
        } catch {
          past.lastFailure = (past.ended + 1, error)
        }
        past.ended += 1
        ended.store(past.ended, ordering: .releasing)
      }
      if let failure = past.lastFailure, failure.number > moment.ended { throw failure.error }
    }
  }
}
