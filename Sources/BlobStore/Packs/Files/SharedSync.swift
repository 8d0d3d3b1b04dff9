internal import Locks
internal import Posix
internal import Synchronization

/// Brings a file to the medium for all threads of a process, one call at a time.
///
/// The system tells an error of the medium once for an open file. Of two calls at one time, one would hear of what the other's
/// bytes met. So each failure counts for all that waited, and who waited for a call that began after its last write needs none
/// of its own.
final class SharedSync: Sendable {
  private struct Past: Sendable {
    /// How many calls have ended; they are numbered from 1 on.
    var ended = 0
    var lastFailure: (number: Int, error: FileError)?
  }

  private let past = Lock(Past())
  private let begun = Atomic(0)
  private let ended = Atomic(0)

  /// Whether a call has failed before.
  var hasFailed: Bool { past.withLock { $0.lastFailure != nil } }

  /// How many calls had begun and ended at one moment.
  struct Moment {
    fileprivate let begun: Int
    fileprivate let ended: Int
  }

  func moment() -> Moment {
    let ended = ended.load(ordering: .acquiring)
    return Moment(begun: begun.load(ordering: .acquiring), ended: ended)
  }

  /// Returns once all that was written before a moment is on the medium.
  ///
  /// - Parameters:
  ///   - moment: nil for now.
  ///   - sync: the call.
  func run(since moment: Moment? = nil, _ sync: () throws(FileError) -> Void) throws(FileError) {
    let moment = moment ?? self.moment()
    try past.withLock { past throws(FileError) in
      // Of a call that was under way, it is not known which bytes it takes along. So it counts if it fails, and only then.
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
