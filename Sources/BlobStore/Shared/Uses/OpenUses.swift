internal import Locks
internal import Synchronization

/// The files of uses that a process has mapped for one control file, of which the last counts.
///
/// A hit in memory counts a use without a lock. So a sketch is kept until the control file is closed: there are few, each
/// at least twice as large as the one before.
@safe final class OpenUses: Sendable {
  private let newest = unsafe Atomic<Unmanaged<UseSketch>?>(nil)
  /// Keeps what `newest` has pointed to.
  private let all = Lock<[UseSketch]>([])
  /// The number of a file that could not be opened.
  private let failed = Atomic<Int64>(0)

  /// Runs a closure with the sketch of a number, which is opened if it is a new one.
  ///
  /// - Parameters:
  ///   - number: the newest file's, by the control file; 0: none.
  ///   - open: nil where the file cannot be opened; it is not tried again for the same number.
  func withSketch<Result>(
    _ number: Int64, opening open: () -> UseSketch?, _ body: (UseSketch) -> Result
  ) -> Result? {
    guard number != 0 else { return nil }
    if let result = withKnownSketch(number, body) { return result }
    guard failed.load(ordering: .relaxed) != number else { return nil }
    return sketch(number, opening: open).map(body)
  }

  /// Runs a closure with the sketch of a number, if it is open.
  func withKnownSketch<Result>(_ number: Int64, _ body: (UseSketch) -> Result) -> Result? {
    // Safe because `all` keeps the object, and `body` cannot outlive the control file that holds this.
    guard let known = unsafe newest.load(ordering: .acquiring) else { return nil }
    return unsafe known._withUnsafeGuaranteedRef { $0.number == number ? body($0) : nil }
  }

  /// Whether `withSketch` opens nothing for a number.
  func isKnown(_ number: Int64) -> Bool {
    guard number != 0, failed.load(ordering: .relaxed) != number else { return true }
    // Safe as there.
    guard let known = unsafe newest.load(ordering: .acquiring) else { return false }
    return unsafe known._withUnsafeGuaranteedRef { $0.number == number }
  }

  /// The sketch of a new number, opened once, however many threads ask for it.
  ///
  /// A thread comes here if `newest` has not had the number. Another thread may have opened it since.
  func sketch(_ number: Int64, opening open: () -> UseSketch?) -> UseSketch? {
    all.withLock { all in
      if let last = all.last, last.number == number { return last }
      guard failed.load(ordering: .relaxed) != number else { return nil }
      guard let sketch = open() else {
        failed.store(number, ordering: .relaxed)
        return nil
      }
      all.append(sketch)
      unsafe newest.store(.passUnretained(sketch), ordering: .releasing)
      return sketch
    }
  }
}
