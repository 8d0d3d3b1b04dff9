internal import BlobRecord
internal import Posix
internal import Synchronization

/// The streams that a store's followers read, and those that its writers write.
///
/// A writer of this store tells its followers of each piece. For streams of other processes a thread looks at the file,
/// every millisecond while bytes come, and every four at the longest. It lives while something is waited for.
final class FollowedStreams: Sendable {
  private struct Followed {
    let stream: FollowedStream
    var followers = 0
  }

  private struct State {
    var streams: [FileIdentity: Followed] = [:]
    /// Streams that this store writes.
    var written: Set<FileIdentity> = []
    var isWatching = false
    /// Whether the thread looks at no file just now, and only at the time.
    var isDozing = false
  }

  private let state = Monitor(State())
  /// How many are followed: a writer asks this for each piece, and nothing else where there are none.
  private let count = Atomic(0)
}

// MARK: - Writers

extension FollowedStreams {
  func beginWriting(_ identity: FileIdentity) {
    locked { _ = $0.written.insert(identity) }
  }

  /// - Parameter whole: the whole blob; nil where it is not to come.
  func endWriting(_ identity: FileIdentity, _ whole: FollowedProgress?) {
    let stream = locked { state in
      state.written.remove(identity)
      return state.streams[identity]?.stream
    }
    if let whole { stream?.tell(whole) } else { stream?.breakOff() }
  }

  /// A piece was written.
  ///
  /// - Parameter byteCount: of the payload so far.
  func didGrow(_ identity: FileIdentity, to byteCount: Int64) {
    guard count.load(ordering: .sequentiallyConsistent) > 0 else { return }
    locked { $0.streams[identity]?.stream }?.tell(FollowedProgress(byteCount: byteCount))
  }
}

// MARK: - Followers

extension FollowedStreams {
  /// The stream of a record, for one more follower.
  ///
  /// - Parameters:
  ///   - found: its file is closed if others follow it already.
  ///   - header: of the record.
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
    // After that: a writer that has not seen the follower has written what this look finds.
    stream.look()
    return stream
  }

  /// A follower is gone.
  func leave(_ identity: FileIdentity) {
    count.subtract(1, ordering: .sequentiallyConsistent)
    // Its file is closed once the lock is free.
    _ = locked { state -> FollowedStream? in
      state.streams[identity]?.followers -= 1
      guard state.streams[identity]?.followers == 0 else { return nil }
      return state.streams.removeValue(forKey: identity)?.stream
    }
  }

  /// A follower has begun to wait.
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
  /// Where only the time is looked at.
  private static var doze: Duration { .milliseconds(25) }

  /// How often the thread finds nothing to wait for before it ends.
  private static var idleLooks: Int { 20 }

  private func run() {
    var pause = Self.shortestPause
    var idleLooks = 0
    while let found = lookAtAll(mayEnd: idleLooks > Self.idleLooks) {
      idleLooks = found.isIdle ? idleLooks + 1 : 0
      pause = found.isNew ? Self.shortestPause : min(pause * 1.5, Self.longestPause)
      sleep(pause)
    }
  }

  /// Looks at all that is waited for, and holds none of it afterwards: so the thread keeps no file open while it sleeps.
  ///
  /// - Returns: nil if the thread ends.
  private func lookAtAll(mayEnd: Bool) -> (isIdle: Bool, isNew: Bool)? {
    guard let streams = waitedFor(mayEnd: mayEnd) else { return nil }
    var isNew = false
    for (stream, isWrittenHere) in streams {
      if !isWrittenHere, stream.look() { isNew = true }
      stream.endLateWaits(at: .now)
    }
    return (streams.isEmpty, isNew)
  }

  /// - Returns: nil if the thread ends, and the next wait starts another.
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

  /// Changes the state, and wakes no thread.
  private func locked<Result>(_ body: (inout State) -> Result) -> Result {
    state.wait { .done(body(&$0)) }
  }
}
