internal import BlobRecord
internal import Locks
package import Posix
package import SystemPackage

/// A subdirectory that stays open while it is used or remembered.
package final class OpenSubdirectory: Sendable {
  package let directory: Directory

  package init(_ directory: consuming Directory) { self.directory = directory }
}

/// The recently used subdirectories of stores and removals, kept open for the next ones.
///
/// Opening and closing one takes a tenth of the time of a small store. None is used for longer than a second, unless a
/// look at the unchanged root shows that its name still leads to it. So a moved or replaced one is noticed as soon as a
/// root is, and a removed one at once.
package final class OpenSubdirectories: Sendable {
  private typealias Table = [PackedName: OpenSubdirectory]

  /// A name in one word, which is hashed and compared much faster.
  ///
  /// Names of a `RecordLayout` have two UTF-16 code units, rounded up to whole scalars: seven bytes at most.
  private struct PackedName: Hashable {
    private let word: UInt64

    /// - Returns: nil for a longer one.
    init?(_ name: String) {
      guard name.utf8.count < 8 else { return nil }
      // After a leading one, which tells how many bytes there are.
      word = name.utf8.reduce(1) { $0 << 8 | UInt64($1) }
    }
  }

  private struct State {
    var table: Table = [:]
    /// No later than the first of them was opened.
    var start: Int64 = 0
    /// When all of them were known last to be the ones of their names.
    var confirmation: Int64 = 0
    /// The root's change time, and a moment before it was read.
    ///
    /// nil if a further change might not show in it.
    var root: (changeNanoseconds: Int64, moment: Int64)?

    mutating func forgetAll() -> Table {
      defer { table = [:] }
      return table
    }
  }

  private let state = Lock(State())
  private let budget: OpenFileBudget

  package init(_ budget: OpenFileBudget) { self.budget = budget }

  deinit { budget.giveBack(state.withLock { $0.table.count }) }

  private static let milliseconds: Int64 = 1000

  /// - Parameter now: of the clock of `remember`.
  /// - Returns: nil if the one of this name is not open.
  package func find(_ name: String, at now: Int64) -> OpenSubdirectory? {
    guard let name = PackedName(name) else { return nil }
    let (found, outdated): (OpenSubdirectory?, Table?) = state.withLock { state in
      guard now - max(state.start, state.confirmation) < Self.milliseconds else { return (nil, state.forgetAll()) }
      return (state.table[name], nil)
    }
    if let outdated { close(outdated) }
    return found
  }

  /// - Parameter start: a moment before it was opened, by a clock that only goes forward, in milliseconds. One that was opened before those that are remembered is not: what they
  ///   are known by does not hold for it.
  package func remember(_ subdirectory: OpenSubdirectory, _ name: String, since start: Int64) {
    guard let name = PackedName(name) else { return }
    if !budget.take() {
      close(state.withLock { $0.forgetAll() })
      guard budget.take() else { return }
    }
    let isOneMore = state.withLock { state in
      if state.table.isEmpty { (state.start, state.confirmation) = (start, start) }
      return start >= state.start && state.table.updateValue(subdirectory, forKey: name) == nil
    }
    if !isOneMore { budget.giveBack(1) }
  }

  /// The root was looked at.
  ///
  /// - Parameters:
  ///   - systemTime: Unix nanoseconds, from before the look.
  ///   - moment: of the clock of `remember`, from between the two. A subdirectory opened from then on is opened after
  ///     the root's last change, if its change time was past before.
  package func confirm(_ root: Stat, systemTime: Int64, at moment: Int64) {
    let changeNanoseconds = root.changeNanoseconds
    let outdated: Table? = state.withLock { state in
      if let root = state.root, root.changeNanoseconds == changeNanoseconds {
        if root.moment <= state.start { state.confirmation = max(moment, state.confirmation) }
        return nil
      }
      defer { state.root = Stat.isSurelyPast(changeNanoseconds, at: systemTime) ? (changeNanoseconds, moment) : nil }
      return state.root == nil ? nil : state.forgetAll()
    }
    if let outdated { close(outdated) }
  }

  /// Forgets the directory of this name.
  package func forget(_ name: String) {
    guard let name = PackedName(name) else { return }
    let former = state.withLock { $0.table.removeValue(forKey: name) }
    if former != nil { budget.giveBack(1) }
  }

  /// Closes directories without the lock, so that no thread waits for it.
  private func close(_ forgotten: consuming Table) { budget.giveBack(forgotten.count) }
}

#if DEBUG
  extension OpenSubdirectories {
    /// Traps where an invariant does not hold. For tests.
    func checkInvariants() {
      state.withLock { state in
        precondition(state.table.isEmpty || state.start <= state.confirmation)
      }
    }
  }
#endif
