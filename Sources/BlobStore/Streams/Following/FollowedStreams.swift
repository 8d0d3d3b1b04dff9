internal import BlobRecord
internal import Posix
internal import Synchronization

/// The streams that are read or written through a store.
///
/// A writer of this store notifies its followers of each piece. For streams of other processes, a thread checks the
/// file while a follower waits: every millisecond while bytes arrive, and at least every four milliseconds.
final class FollowedStreams: Sendable {
  private struct Followed {
    let stream: FollowedStream
    var followers = 0
  }

  private struct State {
    var streams: [FileIdentity: Followed] = [:]
    var written: Set<FileIdentity> = []
    var isWatching = false
    /// A Boolean value that indicates whether the thread currently checks no files, but only deadlines.
    var isDozing = false
  }

  private let state = Monitor(State())
  /// The number of followers, which is all that a writer without followers checks for each piece.
  private let count = Atomic(0)
}

// MARK: - Writers

extension FollowedStreams {
  func beginWriting(_ identity: FileIdentity) {
    locked { _ = $0.written.insert(identity) }
  }

  /// - Parameter whole: The complete blob, or `nil` if the writer has discarded it.
  func endWriting(_ identity: FileIdentity, _ whole: FollowedProgress?) {
    let stream = locked { state in
      state.written.remove(identity)
      return state.streams[identity]?.stream
    }
    if let whole { stream?.tell(whole) } else { stream?.breakOff() }
  }

  func didGrow(_ identity: FileIdentity, to byteCount: Int64) {
    guard count.load(ordering: .sequentiallyConsistent) > 0 else { return }
    locked { $0.streams[identity]?.stream }?.tell(FollowedProgress(byteCount: byteCount))
  }
}

// MARK: - Followers

extension FollowedStreams {
  /// Returns the stream of a record for another follower. If the stream already exists, the record's file is closed.
  func follow(_ found: FollowedRecord, _ header: RecordHeader) -> FollowedStream {
    guard let identity = found.stream else {
      let progress = FollowedProgress(
        byteCount: Int64(clamping: header.payloadSize), header: header, extension: found.record.extension)
      return FollowedStream(found.record, progress)
    }
    let own = FollowedStream(found.record)
    let stream = locked { state in
      state.streams[identity, default: Followed(stream: own)].followers += 1
      return state.streams[identity]?.stream ?? own
    }
    count.add(1, ordering: .sequentiallyConsistent)
    // Checked after counting: a writer that has not seen the follower has written what this check reads.
    stream.check()
    return stream
  }

  func leave(_ identity: FileIdentity) {
    count.subtract(1, ordering: .sequentiallyConsistent)
    // The file is closed after the lock is released.
    _ = locked { state -> FollowedStream? in
      state.streams[identity]?.followers -= 1
      guard state.streams[identity]?.followers == 0 else { return nil }
      return state.streams.removeValue(forKey: identity)?.stream
    }
  }

  /// Starts or wakes the thread for a follower that waits.
  func watch(_ identity: FileIdentity) {
    let (mustStart, mustWake) = locked { state in
      let mustWake = state.isDozing && !state.written.contains(identity)
      if mustWake { state.isDozing = false }
      defer { state.isWatching = true }
      return (!state.isWatching, mustWake)
    }
    if mustWake { state.change { _ in } }
    guard mustStart else { return }
    do {
      try OwnedThread { self.run() }
    } catch {
      let streams = locked { state in
        state.isWatching = false
        return state.streams.values.map(\.stream)
      }
      for stream in streams { stream.failWaits(BlobStoreError(.fileSystem, "no thread to follow by", errno: error)) }
    }
  }
}

// MARK: - Watching

extension FollowedStreams {
  private static var shortestPause: Duration { .milliseconds(1) }
  private static var longestPause: Duration { .milliseconds(4) }
  /// The interval if only deadlines are checked.
  private static var doze: Duration { .milliseconds(25) }

  /// The number of checks without waits after which the thread ends.
  private static var idleChecks: Int { 20 }

  private func run() {
    var pause = Self.shortestPause
    var idleChecks = 0
    while let found = checkAll(mayEnd: idleChecks > Self.idleChecks) {
      idleChecks = found.isIdle ? idleChecks + 1 : 0
      pause = found.isNew ? Self.shortestPause : min(pause * 1.5, Self.longestPause)
      sleep(pause)
    }
  }

  /// Checks all streams with waits, and retains none of them, so that the thread keeps no file open while it sleeps.
  /// Returns `nil` if the thread ends.
  private func checkAll(mayEnd: Bool) -> (isIdle: Bool, isNew: Bool)? {
    guard let streams = waitedFor(mayEnd: mayEnd) else { return nil }
    var isNew = false
    for (stream, isWrittenHere) in streams {
      if !isWrittenHere, stream.check() { isNew = true }
      stream.endLateWaits(at: .now)
    }
    return (streams.isEmpty, isNew)
  }

  /// Returns `nil` if the thread ends, so that the next wait starts another one.
  private func waitedFor(mayEnd: Bool) -> [(FollowedStream, isWrittenHere: Bool)]? {
    locked { state in
      let streams = state.streams.filter { $0.value.stream.hasWaiters }
      state.isWatching = !(streams.isEmpty && mayEnd)
      guard state.isWatching else { return nil }
      state.isDozing = streams.keys.allSatisfy(state.written.contains)
      return streams.map { ($0.value.stream, state.written.contains($0.key)) }
    }
  }

  private func sleep(_ pause: Duration) {
    var hasSlept = false
    state.wait { state -> Monitor<State>.Finding<Void> in
      guard !hasSlept else { return .done(()) }
      hasSlept = true
      return .wait(state.isDozing ? Self.doze : pause)
    }
  }

  /// Changes the state without waking a thread.
  private func locked<Result>(_ body: (inout State) -> Result) -> Result {
    state.wait { .done(body(&$0)) }
  }
}
