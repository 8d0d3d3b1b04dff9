internal import BlobRecord
internal import Locks

/// A blob that this process writes while others read it: who reads it, and how it ended.
final class StreamProduction: Sendable {
  fileprivate struct State {
    /// The task that begins it is the first.
    var readers = 1
    /// Where the reader is that is furthest.
    var furthest: Int64 = 0
    var producer: Task<Void, Never>?
    var failure: (any Error)?
    /// Appends that wait for a reader to pass an offset.
    var ahead = WaitList<SuspendedTask<Void, Int64>>()
    var isAbandoned = false
  }

  let key: BlobKey
  let options: StreamOptions
  /// When there is something to read, or it is known that there will be nothing.
  let opening = Moment()
  /// When nothing of it is left but what it has stored.
  let end = Moment()
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
}

// MARK: - Its beginning

extension StreamProduction {
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

  /// A reader is gone. The last one ends the producer, unless that finishes alone.
  func leave() {
    let (producer, ahead) = state.withLock { state -> (Task<Void, Never>?, [SuspendedTask<Void, Int64>]) in
      state.readers -= 1
      guard state.readers == 0 else { return (nil, []) }
      // Nobody has to be waited for any more.
      let ahead = state.ahead.removeAll()
      guard !options.finishesAlone else { return (nil, ahead) }
      state.isAbandoned = true
      return (state.producer, ahead)
    }
    producer?.cancel()
    for append in ahead { append.continuation.resume() }
  }

  func didRead(to offset: Int64) {
    let ahead = state.withLock { state in
      state.furthest = max(state.furthest, offset)
      return state.ahead.removeAll { [furthest = state.furthest] in $0.note <= furthest }
    }
    for append in ahead { append.continuation.resume() }
  }

  /// Returns once a reader has passed an offset, or there is no reader.
  ///
  /// - Throws: `CancellationError` if the task is cancelled.
  func waitForReaders(toPass offset: Int64) async throws {
    try await state.wait(in: \.ahead, for: offset) { state, _ in
      state.furthest >= offset || state.readers == 0 ? () : nil
    }
    try Task.checkCancellation()
  }
}

/// The streams that are produced in this process: one for each key.
final class StreamTable: Sendable {
  private let productions = Lock<[BlobKey: StreamProduction]>([:])

  /// The production of a key; nil if none is under way.
  func production(of key: BlobKey) -> StreamProduction? { productions.withLock { $0[key] } }

  /// The production of a key, which the caller has to begin if it is new.
  func production(of key: BlobKey, _ options: StreamOptions) -> (StreamProduction, isNew: Bool) {
    productions.withLock { productions in
      if let production = productions[key] { return (production, false) }
      let production = StreamProduction(key, options)
      productions[key] = production
      return (production, true)
    }
  }

  func end(_ production: StreamProduction) {
    productions.withLock { productions in
      if productions[production.key] === production { productions[production.key] = nil }
    }
    production.opening.come()
  }
}
