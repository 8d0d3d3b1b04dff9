import BlobCache
import Foundation
import Locks
import MemoryCache
import Posix
import Synchronization
import SystemPackage
import TestSupport
import Testing

/// A temporary directory with a manual clock, and a counter of the system calls that reach the disk.
struct TestCache {
  let outside: TemporaryDirectory
  let root: FilePath
  let clock = ManualClock()
  /// The monotonic time since the test began.
  let uptime = ManualClock(0)
  let disk = TestDisk()

  init() throws {
    outside = try TemporaryDirectory()
    // The cache reports its canonical path.
    root = try Files().canonical(outside.path).appending("cache")
  }

  func configuration(_ change: (inout BlobCache.Configuration) -> Void = { _ in }) -> BlobCache.Configuration {
    var configuration = BlobCache.Configuration()
    configuration.store = storeConfiguration
    configuration.memory?.respondsToMemoryPressure = false
    configuration.monotonicNow = { [uptime, start = ContinuousClock.now] in
      start.advanced(by: .seconds(uptime.now.seconds))
    }
    change(&configuration)
    return configuration
  }

  func cache(_ change: (inout BlobCache.Configuration) -> Void = { _ in }) throws -> BlobCache {
    try BlobCache(directory: root, configuration: configuration(change), files: disk.files)
  }

  var storeConfiguration: BlobStore.Configuration {
    var configuration = BlobStore.Configuration()
    configuration.layout.arrangement = .prefix
    // Tests count and hold the calls for record files, so records are not packed.
    configuration.packing = .off
    configuration.durability = .none
    configuration.limits.freeSpaceFloor = 0
    configuration.access.lockTimeout = .seconds(60)
    configuration.now = { [clock] in clock.now }
    return configuration
  }

  /// Returns another store of the directory, like the one of another process.
  func otherStore() throws -> BlobStore {
    try BlobStore(directory: root, configuration: storeConfiguration)
  }

  func path(_ name: String) -> String { root.string + "/" + name }

  /// Damages the payload of a file.
  func flipLastByte(of name: String) throws {
    var bytes = try Data(contentsOf: URL(filePath: path(name)))
    bytes[bytes.count - 1] ^= 0xFF
    try bytes.write(to: URL(filePath: path(name)))
  }
}

/// Counts system calls, makes some of them fail, and holds some until they are released.
final class TestDisk: Sendable {
  private struct State: Sendable {
    var counts: [SystemCall: Int] = [:]
    var held: Set<SystemCall> = []
    var holdCount = 0
    var failing: [SystemCall: Errno] = [:]
    var delay: [SystemCall: Duration] = [:]
    var answersCached = true
    var cachedCount = 0
  }

  private let state = Monitor(State())
  /// The time after which held calls continue, so that a failed test does not hang.
  private let longestHold: Duration = .seconds(300)
  private let moment = Atomic(Files.startOfTests)

  var files: Files { Files(intercepting: intercept, clock: { self.moment.load(ordering: .relaxed) }) }

  /// Advances the clock of checks that are made once per second; it does not advance otherwise.
  func wait(milliseconds: Int64) { moment.wrappingAdd(milliseconds, ordering: .relaxed) }

  private var intercept: Files.Interceptor {
    { made, _ in
      // A fault of the ordinary call also applies to its nonblocking variant.
      let call = made.ordinary
      let (failure, delay) = self.state.change { state -> (Errno?, Duration?) in
        if call != made {
          let wouldWait =
            !state.answersCached || state.held.contains(call) || state.failing[call] != nil || state.delay[call] != nil
          if wouldWait { return (.resourceTemporarilyUnavailable, nil) }
          state.cachedCount += 1
        }
        state.counts[call, default: 0] += 1
        if state.held.contains(call) { state.holdCount += 1 }
        return (state.failing[call], state.delay[call])
      }
      guard call == made else { return failure.map { .fail($0) } }
      if let delay { Thread.sleep(forTimeInterval: delay / .seconds(1)) }
      let end = ContinuousClock.now + self.longestHold
      self.state.wait { state in
        guard state.held.contains(call) else { return .done(()) }
        guard .now < end else {
          Issue.record(
            "\(call) was held for \(self.longestHold): does the test wait for what it holds? Or has it failed?")
          return .done(())
        }
        return .wait(end - .now)
      }
      return failure.map { .fail($0) }
    }
  }

  func count(_ call: SystemCall) -> Int { state.change { $0.counts[call] ?? 0 } }

  /// Sets whether nonblocking calls succeed, as if the kernel had the files in memory.
  func answersCached(_ answers: Bool) { state.change { $0.answersCached = answers } }

  /// The number of nonblocking calls that were answered.
  var cachedCount: Int { state.change { $0.cachedCount } }

  var callCount: Int { state.change { $0.counts.values.reduce(0, +) } }

  func fail(_ call: SystemCall, _ errno: Errno?) { state.change { $0.failing[call] = errno } }

  func slow(_ call: SystemCall, by delay: Duration?) { state.change { $0.delay[call] = delay } }

  /// Blocks calls of a kind until `letGo` is called.
  func hold(_ call: SystemCall) {
    state.change {
      $0.held.insert(call)
      $0.holdCount = 0
    }
  }

  func letGo() { state.change { $0.held = [] } }

  /// Returns when this number of calls are held.
  func waitForHeld(_ count: Int) async throws {
    try await until { state.change { $0.holdCount } >= count }
  }
}

/// Waits until a condition holds, with a timeout for the slowest machine.
func until(_ condition: () async throws -> Bool) async throws {
  let start = ContinuousClock.now
  while try await !condition() {
    try #require(start.duration(to: .now) < .seconds(300), "it never happens")
    try await Task.sleep(for: .milliseconds(1))
  }
}

/// Runs an asynchronous operation to its end from a thread outside of the cooperative pool.
func waiting<Result: Sendable>(_ operation: @escaping @Sendable () async throws -> Result) throws -> Result {
  let (result, isDone) = (Log<Swift.Result<Result, any Error>>(), Gate())
  Task.detached {
    do {
      result.append(.success(try await operation()))
    } catch {
      result.append(.failure(error))
    }
    isDone.open()
  }
  try #require(isDone.wait(), "the operation never ends")
  return try result.all[0].get()
}

/// Runs a blocking operation on its own thread.
func onOwnThread<Result: Sendable>(_ operation: @escaping @Sendable () throws -> Result) async throws -> Result {
  try await withCheckedThrowingContinuation { done in
    Thread.detachNewThread { done.resume(with: Swift.Result { try operation() }) }
  }
}

func payload(_ byteCount: Int, _ seed: UInt64 = 1) -> Data {
  var generator = SeededGenerator(seed: seed)
  return Data(generator.bytes(byteCount))
}

/// Expects an error of the cache with this code.
@discardableResult
func expect(
  _ code: BlobCacheError.Code, sourceLocation: SourceLocation = #_sourceLocation, _ body: () async throws -> Void
) async -> BlobCacheError? {
  let error = await #expect(throws: BlobCacheError.self, sourceLocation: sourceLocation) { try await body() }
  #expect(error?.code == code, sourceLocation: sourceLocation)
  return error
}

final class Counter: Sendable {
  private let value = Atomic(0)
  @discardableResult func increment() -> Int { value.add(1, ordering: .relaxed).newValue }
  var count: Int { value.load(ordering: .relaxed) }
}

/// A latch that opens once and lets all later waits pass.
final class Latch: Sendable {
  private struct State {
    var isOpen = false
    var waiters: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Lock(State())

  var isOpen: Bool { state.withLock { $0.isOpen } }

  func open() {
    let waiters = state.withLock { state in
      state.isOpen = true
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.resume() }
  }

  func wait() async {
    await withCheckedContinuation { (waiter: CheckedContinuation<Void, Never>) in
      let isOpen = state.withLock { state in
        if !state.isOpen { state.waiters.append(waiter) }
        return state.isOpen
      }
      if isOpen { waiter.resume() }
    }
  }
}

/// The elements that any thread has appended, in order.
final class Log<Element: Sendable>: Sendable {
  private let entries = Lock<[Element]>([])
  func append(_ element: Element) { entries.withLock { $0.append(element) } }
  var all: [Element] { entries.withLock { $0 } }
}

extension SystemCall {
  /// The blocking call that corresponds to a nonblocking one.
  fileprivate var ordinary: SystemCall {
    switch self {
    case .openCached: .openBeneath
    case .readCached: .read
    default: self
    }
  }
}
