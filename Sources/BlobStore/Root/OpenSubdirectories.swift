internal import BlobRecord
internal import Locks
package import Posix
package import SystemPackage

/// A subdirectory that stays open while it is used or cached.
package final class OpenSubdirectory: Sendable {
  package let directory: Directory

  package init(_ directory: consuming Directory) { self.directory = directory }
}

/// The recently used subdirectories of stores and removals, which stay open for later ones.
///
/// Opening and closing a directory allocates, and takes a few percent of the time of a small store. A cached directory
/// is used for at most a second, unless a check of the unchanged root confirms that its name still leads to it. A moved
/// or replaced subdirectory is therefore noticed as soon as a replaced root, and a removed one immediately.
///
/// All caches of a process share a small budget of open directories. If it is used up, a cache closes the directory that
/// it has used least recently. A `BlobCache` without work closes all of them before its threads end.
package final class OpenSubdirectories: Sendable {
  /// A name in one word, which is compared much faster than a string. Names of a `RecordLayout` have two UTF-16 code
  /// units, rounded up to whole scalars, which are at most seven bytes.
  private struct PackedName: Equatable {
    private let word: UInt64

    init?(_ name: String) {
      guard name.utf8.count < 8 else { return nil }
      // The leading 1 encodes the number of bytes.
      word = name.utf8.reduce(1) { $0 << 8 | UInt64($1) }
    }
  }

  private struct Entry {
    let name: PackedName
    let subdirectory: OpenSubdirectory
  }

  private struct State {
    /// The entries in the order of their last use. They are so few that a search takes less time than a hash.
    var entries: [Entry] = []
    /// A time not later than the opening of any of the directories.
    var start: Int64 = 0
    /// The last time at which all names were known to lead to these directories.
    var confirmation: Int64 = 0
    /// The root's change time and a moment before it was read, or `nil` if a further change might not alter it.
    var root: (changeNanoseconds: Int64, moment: Int64)?

    mutating func remove(_ name: PackedName) -> Entry? {
      entries.lastIndex { $0.name == name }.map { entries.remove(at: $0) }
    }

    mutating func use(_ name: PackedName) -> OpenSubdirectory? {
      if let last = entries.last, last.name == name { return last.subdirectory }
      guard let entry = remove(name) else { return nil }
      entries.append(entry)
      return entry.subdirectory
    }

    mutating func forgetAll() -> [Entry] {
      defer { entries = [] }
      return entries
    }
  }

  private let state = Lock(State())
  private let budget: OpenFileBudget

  package init(_ budget: OpenFileBudget) { self.budget = budget }

  deinit { budget.giveBack(state.withLock { $0.entries.count }) }

  private static let milliseconds: Int64 = 1000

  package func find(_ name: String, at now: Int64) -> OpenSubdirectory? {
    guard let name = PackedName(name) else { return nil }
    let (found, outdated): (OpenSubdirectory?, [Entry]?) = state.withLock { state in
      guard now - max(state.start, state.confirmation) < Self.milliseconds else { return (nil, state.forgetAll()) }
      return (state.use(name), nil)
    }
    if let outdated { close(outdated) }
    return found
  }

  /// Caches a subdirectory that was opened after `start`, a time of a monotonic clock in milliseconds.
  ///
  /// A directory that was opened before the cached ones is not added, because their confirmation is not valid for it.
  package func remember(_ subdirectory: OpenSubdirectory, _ name: String, since start: Int64) {
    guard let name = PackedName(name) else { return }
    let mayGrow = budget.take()
    let (hasGrown, former) = state.withLock { state -> (Bool, Entry?) in
      if state.entries.isEmpty { (state.start, state.confirmation) = (start, start) }
      guard start >= state.start else { return (false, nil) }
      let former = state.remove(name) ?? (mayGrow || state.entries.isEmpty ? nil : state.entries.removeFirst())
      if mayGrow || former != nil { state.entries.append(Entry(name: name, subdirectory: subdirectory)) }
      return (mayGrow && former == nil, former)
    }
    if mayGrow, !hasGrown { budget.giveBack(1) }
    // Closed here, without holding the lock.
    withExtendedLifetime(former) {}
  }

  /// Closes all directories, because no more changes are expected for some time.
  package func closeAll() { close(state.withLock { $0.forgetAll() }) }

  /// Confirms the directories, or forgets them if the root has changed.
  ///
  /// - Parameters:
  ///   - systemTime: The Unix time in nanoseconds before the root's status was read.
  ///   - moment: The time of the clock of `remember`, read between `systemTime` and the status. A subdirectory that is
  ///     opened after this time is opened after the root's last change, if that was already past.
  package func confirm(_ root: Stat, systemTime: Int64, at moment: Int64) {
    let changeNanoseconds = root.changeNanoseconds
    let outdated: [Entry]? = state.withLock { state in
      if let root = state.root, root.changeNanoseconds == changeNanoseconds {
        if root.moment <= state.start { state.confirmation = max(moment, state.confirmation) }
        return nil
      }
      defer { state.root = Stat.isSurelyPast(changeNanoseconds, at: systemTime) ? (changeNanoseconds, moment) : nil }
      return state.root == nil ? nil : state.forgetAll()
    }
    if let outdated { close(outdated) }
  }

  package func forget(_ name: String) {
    guard let name = PackedName(name) else { return }
    let former = state.withLock { $0.remove(name) }
    if former != nil { budget.giveBack(1) }
  }

  /// Closes directories without holding the lock, so that no thread waits for it.
  private func close(_ forgotten: consuming [Entry]) { budget.giveBack(forgotten.count) }
}

#if DEBUG
  extension OpenSubdirectories {
    /// Traps if an invariant does not hold. For tests.
    func checkInvariants() {
      state.withLock { state in
        precondition(state.entries.isEmpty || state.start <= state.confirmation)
      }
    }
  }
#endif
