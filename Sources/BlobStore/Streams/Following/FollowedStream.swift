package import BlobRecord
internal import Locks
internal import Posix

/// A growing record, with all waits for its bytes in this process, which share the open file.
final class FollowedStream: Sendable {
  typealias Answer = Result<FollowedProgress, any Error>

  private struct Waiter {
    let offset: Int64
    let timeout: Duration
    let begin: ContinuousClock.Instant
    let call: @Sendable (Answer) -> Void

    /// The end of the timeout, which starts again with each byte, even one before the requested offset.
    func deadline(_ lastGrowth: ContinuousClock.Instant?) -> ContinuousClock.Instant {
      max(begin, lastGrowth ?? begin).advanced(by: timeout)
    }
  }

  private struct State {
    var progress: FollowedProgress
    var isBroken = false
    var waiters: [UInt64: Waiter] = [:]
    var nextNumber: UInt64 = 0
    /// The time of the last byte, or `nil` before the first known one.
    var lastGrowth: ContinuousClock.Instant?
    /// A lower bound of the waiters' deadlines.
    var earliestDeadline: ContinuousClock.Instant?

    /// `nil` if the wait must continue.
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

  init(_ record: OpenRecord, _ progress: FollowedProgress = FollowedProgress(byteCount: 0)) {
    self.record = record
    state = Lock(State(progress: progress))
  }

  var progress: FollowedProgress { state.withLock { $0.progress } }
  var hasWaiters: Bool { state.withLock { !$0.waiters.isEmpty } }
}

// MARK: - Waiting

extension FollowedStream {
  /// Calls a closure once, as described at `BlobFollower.whenReady`.
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

  /// Ends a wait with an error, unless it has already ended.
  func leave(_ number: UInt64, _ error: any Error) {
    let waiter = state.withLock { $0.waiters.removeValue(forKey: number) }
    waiter?.call(.failure(error))
  }

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

// MARK: - Checks of the file

extension FollowedStream {
  private enum FileState {
    case nothingNew
    case progress(FollowedProgress)
    case broken
  }

  /// Checks the writer's progress, and answers the waits for it. Returns whether there was progress.
  ///
  /// System calls: fstat, pread; without progress, flock; fstat, pread for an extension at the end.
  @discardableResult
  func check() -> Bool {
    do throws(FileError) {
      switch try fileState() {
      case .nothingNew: return false
      case .progress(let progress): tell(progress)
      case .broken: breakOff()
      }
    } catch {
      failWaits(error)
    }
    return true
  }

  func failWaits(_ error: any Error) {
    let waiters = state.withLock { $0.takeWaiters { _ in true } }
    for waiter in waiters { waiter.call(.failure(error)) }
  }

  /// Ends all waits after the writer has discarded the blob.
  func breakOff() {
    answer { $0.isBroken = true }
  }

  /// Records the writer's progress, which a check of the file or the writer itself reports.
  func tell(_ progress: FollowedProgress) {
    answer { state in
      // A concurrent check may have seen more progress.
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

  private func fileState() throws(FileError) -> FileState {
    // The size is read first. The header then determines which of these bytes belong to the payload.
    let fileSize = try record.file.status().size
    guard let (stored, header) = try headers() else { return .nothingNew }
    if let whole = try whole(stored, header) { return .progress(whole) }
    let byteCount = min(fileSize - Int64(RecordHeader.byteCount), Int64(clamping: header.payloadSize))
    if byteCount > progress.byteCount { return .progress(FollowedProgress(byteCount: byteCount)) }
    if try record.file.isLockedElsewhere() { return .nothingNew }
    // The writer may have completed the record before it released its lock.
    if let (stored, header) = try headers(), let whole = try whole(stored, header) { return .progress(whole) }
    return .broken
  }

  /// - Returns: The stored and the validated header, or `nil` while the header is being written.
  private func headers() throws(FileError) -> (StoredHeader, RecordHeader)? {
    // A partially written header is read again at the next check.
    guard case .success(let stored) = try record.file.readHeader(), let header = try? stored.validated() else {
      return nil
    }
    return (stored, header)
  }

  private func whole(_ stored: StoredHeader, _ header: RecordHeader) throws(FileError) -> FollowedProgress? {
    guard !header.flags.contains(.streamIncomplete) else { return nil }
    var progress = FollowedProgress(byteCount: Int64(clamping: header.payloadSize), header: header)
    if header.extensionEnd != nil {
      // The size is read again, because the extension is written after the complete payload.
      var facts = RecordFacts(fileSize: try record.file.status().size)
      progress.extension = try record.file.readExtension(by: stored, &facts)
    }
    return progress
  }
}

/// The progress of a followed blob.
package struct FollowedProgress: Sendable {
  package var byteCount: Int64
  package var header: RecordHeader?
  /// The extension of a complete blob, or `nil` if it does not exist or is damaged.
  var `extension`: RecordExtension?

  /// The damage of the extension that the final header requires, or `nil` if it is sound.
  var breach: RecordError? { header?.extensionEnd != nil && `extension` == nil ? .invalidExtension : nil }
}
