internal import BlobRecord
internal import Locks

/// A blob that this process writes while others read it: who reads it, and how it ended.
final class StreamProduction: Sendable {
  private struct State {
    var readers = 0
    /// Where the reader is that is furthest.
    var furthest: Int64 = 0
    var producer: Task<Void, Never>?
    var failure: (any Error)?
    var hasOpened = false
    var opening: [CheckedContinuation<Void, Never>] = []
    /// The producer, which waits for a reader to pass an offset.
    var ahead: (offset: Int64, CheckedContinuation<Void, Never>)?
    var isAbandoned = false
  }

  let key: BlobKey
  let options: StreamOptions
  private let state = Lock(State())

  init(_ key: BlobKey, _ options: StreamOptions) {
    self.key = key
    self.options = options
  }

  /// The producer's error.
  var failure: (any Error)? {
    get { state.withLock { $0.failure } }
    set { state.withLock { $0.failure = newValue } }
  }

  /// Readers of this process.
  var readerCount: Int { state.withLock { $0.readers } }
}

// MARK: - Its beginning

extension StreamProduction {
  /// Returns once there is something to read, or it is known that there will be nothing.
  func whenOpened() async {
    await withCheckedContinuation { continuation in
      let hasOpened = state.withLock { state in
        if !state.hasOpened { state.opening.append(continuation) }
        return state.hasOpened
      }
      if hasOpened { continuation.resume() }
    }
  }

  func didOpen() {
    let opening = state.withLock { state in
      state.hasOpened = true
      defer { state.opening = [] }
      return state.opening
    }
    for continuation in opening { continuation.resume() }
  }

  /// Runs the producer, whose first reader has joined.
  func start(_ produce: @escaping @Sendable () async -> Void) {
    let producer = Task { @concurrent in await produce() }
    let isAbandoned = state.withLock { state in
      state.producer = producer
      return state.isAbandoned
    }
    if isAbandoned { producer.cancel() }
  }
}

// MARK: - Its readers

extension StreamProduction {
  /// - Returns: false if the last reader has left before: the producer ends.
  func join() -> Bool {
    state.withLock { state in
      guard !state.isAbandoned else { return false }
      state.readers += 1
      return true
    }
  }

  /// Returns once nothing of it is left but what it has stored.
  func whenEnded() async { await state.withLock { $0.producer }?.value }

  /// A reader is gone. The last one ends the producer, unless that finishes alone.
  func leave() {
    let (producer, ahead) = state.withLock { state -> (Task<Void, Never>?, CheckedContinuation<Void, Never>?) in
      state.readers -= 1
      guard state.readers == 0 else { return (nil, nil) }
      // Nobody has to be waited for any more.
      let ahead = state.ahead?.1
      state.ahead = nil
      guard !options.finishesAlone else { return (nil, ahead) }
      state.isAbandoned = true
      return (state.producer, ahead)
    }
    producer?.cancel()
    ahead?.resume()
  }

  func didRead(to offset: Int64) {
    let ahead = state.withLock { state -> CheckedContinuation<Void, Never>? in
      state.furthest = max(state.furthest, offset)
      guard let (wanted, continuation) = state.ahead, state.furthest >= wanted else { return nil }
      state.ahead = nil
      return continuation
    }
    ahead?.resume()
  }

  /// Returns once a reader has passed an offset, or there is no reader.
  func waitForReaders(toPass offset: Int64) async throws {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let mustWait = state.withLock { state in
          let mustWait = state.furthest < offset && state.readers > 0 && !Task.isCancelled
          if mustWait { state.ahead = (offset, continuation) }
          return mustWait
        }
        if !mustWait { continuation.resume() }
      }
    } onCancel: {
      let ahead = state.withLock { state in
        defer { state.ahead = nil }
        return state.ahead?.1
      }
      ahead?.resume()
    }
    try Task.checkCancellation()
  }
}
