internal import BlobRecord
internal import Locks

/// A change under the preconditions of its request, which are judged while no process can change the key otherwise.
final class JudgedChange: Sendable {
  private let preconditions: Preconditions
  /// What was there; nil for nothing.
  private let found = Lock<Validators?>(nil)

  init(_ preconditions: Preconditions) { self.preconditions = preconditions }

  /// - Parameter header: is told each time the change is about to be made.
  func allows(_ header: RecordHeader?) -> Bool {
    let stored = header.map(Validators.init)
    note(stored)
    return preconditions.allowChange(of: stored)
  }

  /// For a change that is made without a judgement.
  func note(_ stored: Validators?) { found.withLock { $0 = stored } }

  var hasFound: Bool { found.withLock { $0 != nil } }

  /// Why the change was not made.
  var refusal: Refusal {
    do throws(Refusal) {
      try preconditions.checkChange(of: found.withLock { $0 })
    } catch {
      return error
    }
    return Refusal(412, "the condition does not hold")
  }
}
