package import BlobRecord
internal import Locks
internal import Posix

/// A record that grows, with all that wait for more of it in this process. They share its open file.
final class FollowedStream: Sendable {
  typealias Answer = Result<FollowedProgress, any Error>

  private struct Waiter {
    let offset: Int64
    let timeout: Duration
    let begin: ContinuousClock.Instant
    let call: @Sendable (Answer) -> Void

    /// When it gives up. Each byte puts that off, also one that it does not wait for.
    func deadline(_ lastGrowth: ContinuousClock.Instant?) -> ContinuousClock.Instant {
      max(begin, lastGrowth ?? begin).advanced(by: timeout)
    }
  }

  private struct State {
    var progress: FollowedProgress
    /// Whether its writer has given it up, or is gone.
    var isBroken = false
    var waiters: [UInt64: Waiter] = [:]
    var nextNumber: UInt64 = 0
    /// When the last byte came; nil before the first that is known of.
    var lastGrowth: ContinuousClock.Instant?
    /// None of the waiters gives up earlier.
    var earliestDeadline: ContinuousClock.Instant?

    /// nil while there is nothing to say.
    func answer(beyond offset: Int64) -> Answer? {
      if progress.header != nil || progress.byteCount > offset { return .success(progress) }
      guard isBroken else { return nil }
      return .failure(
        BlobStoreError(.streamBroken, "the blob is not to come: its writer has given it up, or is gone"))
    }

    mutating func takeWaiters(where isTaken: (Waiter) -> Bool) -> [Waiter] {
      let numbers = waiters.filter { isTaken($0.value) }.map(\.key)
      return numbers.compactMap { waiters.removeValue(forKey: $0) }
    }
  }

  let record: OpenRecord
  private let state: Lock<State>

  /// - Parameter progress: all of it where the record is whole.
  init(_ record: OpenRecord, _ progress: FollowedProgress = FollowedProgress(byteCount: 0)) {
    self.record = record
    state = Lock(State(progress: progress))
  }

  var progress: FollowedProgress { state.withLock { $0.progress } }
  var hasWaiters: Bool { state.withLock { !$0.waiters.isEmpty } }
}

// MARK: - Waiting

extension FollowedStream {
  /// Calls once: when there are bytes behind an offset, when the blob is whole or not to come, or when time is up.
  ///
  /// - Returns: what `leave` takes; nil if it has called already.
  func wait(
    beyond offset: Int64, atMost timeout: Duration, _ call: @escaping @Sendable (Answer) -> Void
  ) -> UInt64? {
    let (answer, number) = state.withLock { state -> (Answer?, UInt64?) in
      if let answer = state.answer(beyond: offset) { return (answer, nil) }
      let number = state.nextNumber
      state.nextNumber += 1
      let waiter = Waiter(offset: offset, timeout: timeout, begin: .now, call: call)
      let deadline = waiter.begin.advanced(by: timeout)
      state.waiters[number] = waiter
      state.earliestDeadline = min(state.earliestDeadline ?? deadline, deadline)
      return (nil, number)
    }
    if let answer { call(answer) }
    return number
  }

  /// Ends a wait, which then fails with an error, unless it has ended.
  func leave(_ number: UInt64, _ error: any Error) {
    let waiter = state.withLock { $0.waiters.removeValue(forKey: number) }
    waiter?.call(.failure(error))
  }

  /// Ends the waits whose time is up.
  func endLateWaits(at now: ContinuousClock.Instant) {
    let late = state.withLock { state -> [Waiter] in
      guard let earliest = state.earliestDeadline, earliest <= now else { return [] }
      let growth = state.lastGrowth
      let late = state.takeWaiters { $0.deadline(growth) <= now }
      state.earliestDeadline = state.waiters.values.map { $0.deadline(growth) }.min()
      return late
    }
    for waiter in late {
      waiter.call(.failure(BlobStoreError(.streamStalled, "nothing more has come for \(waiter.timeout)")))
    }
  }
}

// MARK: - Looking

extension FollowedStream {
  /// A look at the file.
  private enum Sight {
    case nothingNew
    case progress(FollowedProgress)
    case broken
  }

  /// Looks how far the writer is, and answers those that wait for it.
  ///
  /// System calls: fstat, pread; where nothing is new, flock; fstat, pread for an extension at the end.
  ///
  /// - Returns: whether something was new.
  @discardableResult
  func look() -> Bool {
    do throws(FileError) {
      switch try sight() {
      case .nothingNew: return false
      case .progress(let progress): tell(progress)
      case .broken: breakOff()
      }
    } catch {
      failWaits(error)
    }
    return true
  }

  /// Ends all waits with an error.
  func failWaits(_ error: any Error) {
    let waiters = state.withLock { $0.takeWaiters { _ in true } }
    for waiter in waiters { waiter.call(.failure(error)) }
  }

  /// The writer has given the blob up.
  func breakOff() {
    answer { $0.isBroken = true }
  }

  /// The writer is so far, as a look or the writer itself tells.
  func tell(_ progress: FollowedProgress) {
    answer { state in
      // Another look may have come further.
      guard state.progress.header == nil, progress.header != nil || progress.byteCount > state.progress.byteCount
      else { return }
      state.progress = progress
      state.lastGrowth = .now
    }
  }

  private func answer(_ change: (inout sending State) -> Void) {
    let answers = state.withLock { state -> [(Waiter, Answer)] in
      change(&state)
      let (now, all) = (state, state.waiters)
      var answers: [(Waiter, Answer)] = []
      for (number, waiter) in all {
        guard let answer = now.answer(beyond: waiter.offset) else { continue }
        state.waiters[number] = nil
        answers.append((waiter, answer))
      }
      return answers
    }
    for (waiter, answer) in answers { waiter.call(answer) }
  }

  private func sight() throws(FileError) -> Sight {
    // First: the header then tells which of these bytes are the payload's.
    let fileSize = try record.file.status().size
    guard let (stored, header) = try headers() else { return .nothingNew }
    if let whole = try whole(stored, header) { return .progress(whole) }
    let byteCount = min(fileSize - Int64(RecordHeader.byteCount), Int64(clamping: header.payloadSize))
    if byteCount > progress.byteCount { return .progress(FollowedProgress(byteCount: byteCount)) }
    if try record.file.isLockedElsewhere() { return .nothingNew }
    // The writer may have completed it before it gave up its lock.
    if let (stored, header) = try headers(), let whole = try whole(stored, header) { return .progress(whole) }
    return .broken
  }

  /// - Returns: the header as it lies there, and what it says; nil while it is being written.
  private func headers() throws(FileError) -> (StoredHeader, RecordHeader)? {
    // One that is seen half written is looked at again.
    guard case .success(let stored) = try record.file.readHeader(), let header = try? stored.validated() else {
      return nil
    }
    return (stored, header)
  }

  private func whole(_ stored: StoredHeader, _ header: RecordHeader) throws(FileError) -> FollowedProgress? {
    guard !header.flags.contains(.streamIncomplete) else { return nil }
    var progress = FollowedProgress(byteCount: Int64(clamping: header.payloadSize), header: header)
    if header.extensionEnd != nil {
      // Asked anew: what lies behind the payload is written after all of that.
      var facts = RecordFacts(fileSize: try record.file.status().size)
      progress.extension = try record.file.readExtension(by: stored, &facts)
    }
    return progress
  }
}

/// How far a blob is that is followed.
package struct FollowedProgress: Sendable {
  /// Bytes of payload that can be read.
  package var byteCount: Int64
  /// The last header, once the blob is whole.
  package var header: RecordHeader?
  /// What lies behind the payload of a whole blob; nil for nothing, or where it is damaged.
  var `extension`: RecordExtension?

  /// How the last header is broken by what lies behind the payload; nil where it is sound.
  var breach: RecordError? { header?.extensionEnd != nil && `extension` == nil ? .invalidExtension : nil }
}
