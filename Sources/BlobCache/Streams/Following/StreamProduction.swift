internal import BlobRecord
internal import Locks

/// A blob that this process writes while others read it, with its readers and its result.
final class StreamProduction: Sendable {
  fileprivate struct State {
    /// The number of readers. The first is the task that begins the production.
    var readers = 1
    var furthest: Int64 = 0
    var producer: Task<Void, Never>?
    var failure: (any Error)?
    var ahead = WaitList<SuspendedTask<Void, Int64>>()
    var isAbandoned = false
  }

  let key: BlobKey
  let options: StreamOptions
  /// The event that bytes can be read, or that there will be no bytes.
  let opening = Moment()
  /// The event that the production has ended.
  let end = Moment()
  private let state = Lock(State())

  init(_ key: BlobKey, _ options: StreamOptions) {
    self.key = key
    self.options = options
  }

  var failure: (any Error)? {
    get { state.withLock { $0.failure } }
    set { state.withLock { $0.failure = newValue } }
  }
}

// MARK: - Its beginning

extension StreamProduction {
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
  /// Adds a reader, or returns `false` if the last one has left and the producer ends.
  func join() -> Bool {
    state.withLock { state in
      guard !state.isAbandoned else { return false }
      state.readers += 1
      return true
    }
  }

  /// Removes a reader. The last one ends the producer, unless `finishesAlone` is set.
  func leave() {
    let (producer, ahead) = state.withLock { state -> (Task<Void, Never>?, [SuspendedTask<Void, Int64>]) in
      state.readers -= 1
      guard state.readers == 0 else { return (nil, []) }
      // Without readers, appends do not wait.
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

  /// Waits until a reader has passed an offset, or the last reader has left.
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

  func production(of key: BlobKey) -> StreamProduction? { productions.withLock { $0[key] } }

  /// Returns the production of a key, which the caller must begin if it is new.
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
