import Dispatch
import Foundation
import Synchronization
import Workbench

/// A peer that works in a separate directory.
protocol Contender: AnyObject {
  var peer: Peer { get }
  /// Performs the work once for each entry, and divides the entries among threads.
  ///
  /// - Returns: The microseconds from the start of the first thread to the end of the last one.
  func perform(_ work: Work, _ batch: Batch, threads: Int) throws -> Double
  /// Stores the entries that must exist before a measurement.
  ///
  /// - Parameter notesUses: A Boolean value that indicates whether loads must record the use, if the peer can.
  func fill(_ entries: [Entry], notesUses: Bool) throws
  /// Closes the directory, as between two runs of a program.
  func close() throws
}

/// A storage engine in this process, which its deinitializer closes.
protocol Engine: AnyObject {
  /// Returns a session for one thread at a time: the engine itself, or a connection to it.
  func session() throws -> any Session
  /// Drops caches that would answer loads without the disk.
  func forget()
}

extension Engine {
  func forget() {}
}

protocol Session: AnyObject, Sendable {
  func store(_ entry: Entry) throws
  /// Leaves the state that a store of a new key leaves, by the fastest means.
  func fill(_ entry: Entry, notesUses: Bool) throws
  func replace(_ entry: Entry) throws
  func load(_ entry: Entry) throws -> Data?
  /// Loads an entry and records the use.
  func loadTouching(_ entry: Entry) throws -> Data?
  func remove(_ entry: Entry) throws
}

extension Session {
  func fill(_ entry: Entry, notesUses: Bool) throws { try store(entry) }
  func replace(_ entry: Entry) throws { try store(entry) }
  func loadTouching(_ entry: Entry) throws -> Data? { throw BenchmarkFailure("\(Self.self) notes no uses") }
}

final class EngineContender: Contender {
  let peer: Peer
  private let open: () throws -> any Engine
  private var engine: (any Engine)?
  private var sessions: [any Session] = []

  init(_ peer: Peer, open: @escaping () throws -> any Engine) throws {
    self.peer = peer
    self.open = open
    engine = try open()
  }

  func perform(_ work: Work, _ batch: Batch, threads: Int) throws -> Double {
    if work == .open { return try openAgain(batch) }
    let sessions = try sessions(threads)
    engine?.forget()
    if threads == 1 {
      return try time { try sessions[0].perform(work, batch, from: 0, by: 1) }
    }
    return try inThreads(threads) { number in
      try sessions[number].perform(work, batch, from: number, by: threads)
    }
  }

  func fill(_ entries: [Entry], notesUses: Bool) throws {
    let session = try sessions(1)[0]
    for entry in entries { try session.fill(entry, notesUses: notesUses) }
    engine?.forget()
  }

  /// Opens the engine again for each entry. Closing is not measured.
  private func openAgain(_ batch: Batch) throws -> Double {
    try batch.entries.reduce(0) { sum, entry in
      close()
      let one = Batch([entry])
      return try sum
        + time {
          engine = try open()
          try sessions(1)[0].perform(.load, one, from: 0, by: 1)
        }
    }
  }

  private func sessions(_ count: Int) throws -> [any Session] {
    if engine == nil { engine = try open() }
    while sessions.count < count, let engine { sessions.append(try engine.session()) }
    return sessions
  }

  func close() {
    sessions = []
    engine = nil
  }
}

extension Session {
  fileprivate func perform(_ work: Work, _ batch: Batch, from first: Int, by step: Int) throws {
    for index in stride(from: first, to: batch.entries.count, by: step) {
      let entry = batch.entries[index]
      switch work {
      case .store: try store(entry)
      case .replace: try replace(entry)
      case .load: try require(try load(entry), entry, batch)
      case .loadTouching: try require(try loadTouching(entry), entry, batch)
      case .miss:
        let isAbsent = try load(entry) == nil
        try BenchmarkFailure.require(isAbsent, "\(Self.self) found \(entry.name)")
      case .remove: try remove(entry)
      case .churn:
        try remove(batch.leaving[index])
        try store(entry)
      case .open, .disk: throw BenchmarkFailure("\(work) is of a whole directory")
      }
    }
  }

  private func require(_ found: Data?, _ entry: Entry, _ batch: Batch) throws {
    let payload = entry.payload.bytes
    let isRight = batch.isVerified ? found == payload : found?.count == payload.count
    try BenchmarkFailure.require(isRight, "\(Self.self) has not loaded what was stored under \(entry.name)")
  }
}

// MARK: - Threads

/// Runs the work in threads, and starts it when all threads are ready.
///
/// - Returns: The microseconds from the start of the first thread to the end of the last one.
private func inThreads(_ count: Int, _ work: @escaping @Sendable (Int) throws -> Void) throws -> Double {
  struct Progress {
    var start: ContinuousClock.Instant?
    var end: ContinuousClock.Instant?
    var failure: (any Error)?
  }
  final class Shared: Sendable {
    let progress = Mutex(Progress())
    let isReady = DispatchSemaphore(value: 0)
    let mayStart = DispatchSemaphore(value: 0)
    let isDone = DispatchSemaphore(value: 0)
  }
  let shared = Shared()
  for number in 0..<count {
    Thread.detachNewThread {
      shared.isReady.signal()
      shared.mayStart.wait()
      let start = ContinuousClock.now
      let result = Result { try work(number) }
      let end = ContinuousClock.now
      shared.progress.withLock { progress in
        progress.start = min(progress.start ?? start, start)
        progress.end = max(progress.end ?? end, end)
        if case .failure(let error) = result { progress.failure = error }
      }
      shared.isDone.signal()
    }
  }
  for _ in 0..<count { shared.isReady.wait() }
  for _ in 0..<count { shared.mayStart.signal() }
  for _ in 0..<count { shared.isDone.wait() }
  return try shared.progress.withLock { progress in
    if let failure = progress.failure { throw failure }
    guard let start = progress.start, let end = progress.end else { return 0 }
    return start.duration(to: end) / .microseconds(1)
  }
}
