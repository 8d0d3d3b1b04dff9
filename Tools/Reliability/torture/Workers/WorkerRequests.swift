internal import Randomness

/// The requests of a worker's thread in order. Only the seed determines them, not the answers.
struct WorkerRequests {
  struct Request {
    var kind: HistoryEntry.Kind
    var key: Int
    /// The time to live of a store in seconds, or 0 for the default.
    var ttl: UInt32 = 0
    /// The size of the pieces in which a payload is written or read, or `nil` for the whole payload.
    var pieceSize: Int?
    /// A Boolean value that indicates whether a read is mapped, or the size of a written payload is announced.
    var isVariant = false
    /// A Boolean value that indicates whether a stream is discarded before its end.
    var isGivenUp = false
  }

  private let keyCount: Int
  private var generator: SeededGenerator

  init(seed: UInt64, keyCount: Int, _ number: (worker: Int, incarnation: Int, thread: Int)) {
    self.keyCount = keyCount
    generator = SeededGenerator(seed: seed, number.worker, number.incarnation, number.thread)
  }

  mutating func next() -> Request {
    if Int.random(in: 0..<100, using: &generator) == 0 { return nextOfStreams() }
    let key = Int.random(in: 0..<keyCount, using: &generator)
    var request = Request(kind: randomKind(), key: key)
    if request.kind.isStore { request.ttl = [0, 0, 0, 1, 2, 5, 30].randomElement(using: &generator) ?? 0 }
    // A quarter uses a writer or a reader, which is a store or a load in the history.
    if Int.random(in: 0..<4, using: &generator) == 0 {
      request.pieceSize = [16, 700, 4096, 65_536].randomElement(using: &generator)
      request.isVariant = Bool.random(using: &generator)
    }
    return request
  }

  /// Returns a request for a stream. These requests are rare because they take milliseconds.
  private mutating func nextOfStreams() -> Request {
    let kinds: [HistoryEntry.Kind] = [.stream, .stream, .follow, .follow, .follow, .loadStreamed]
    var request = Request(
      kind: kinds.randomElement(using: &generator) ?? .follow,
      key: Int.random(in: 0..<KeyNames.streamCount, using: &generator))
    request.isVariant = Int.random(in: 0..<4, using: &generator) == 0
    request.isGivenUp = Int.random(in: 0..<3, using: &generator) == 0
    return request
  }

  private mutating func randomKind() -> HistoryEntry.Kind {
    // Percentages: two thirds read, and locks are as frequent as unlocks.
    if Int.random(in: 0..<2000, using: &generator) == 0 {
      return Bool.random(using: &generator) ? .removeLocked : .removeUnlocked
    }
    return switch Int.random(in: 0..<100, using: &generator) {
    case ..<45: .load
    case ..<54: .loadUntouched
    case ..<59: .header
    case ..<62: .contains
    case ..<73: .store
    case ..<75: .storeLocked
    case ..<79: .storeKeepingLocks
    case ..<80: .storeLockedKeepingLocks
    case ..<83: .touch
    case ..<90: .lock
    case ..<97: .unlock
    default: .remove
    }
  }
}
