internal import BlobRecord
internal import BlobStore
internal import Foundation
internal import Locks
internal import Logging
internal import Posix
internal import Randomness
internal import Synchronization
internal import SystemPackage

/// A part of a soak: threads use a new store while some of its calls fail, and a collection ends the round.
final class SoakRound: Sendable {
  static let keyCount = 64

  struct Result {
    var operations: Int
    var failedCalls: Int
    var wrongAnswers: Int
  }

  private let store: BlobStore
  private let directory: String
  private let threads: Int
  private let operations: Int
  private let seed: UInt64
  private let plant: SoakCommand.LeakPlant?
  private let faults: SoakFaults
  private let wrongAnswers = Atomic(0)

  init(
    directory: String, threads: Int, operations: Int, seed: UInt64, plant: SoakCommand.LeakPlant?
  ) throws {
    faults = SoakFaults(seed: seed)
    store = try BlobStore(
      directory: FilePath(directory), configuration: Self.configuration, files: faults.files())
    self.directory = directory
    self.threads = threads
    self.operations = operations
    self.seed = seed
    self.plant = plant
  }

  private static var configuration: BlobStore.Configuration {
    var configuration = BlobStore.Configuration()
    configuration.durability = .none
    configuration.packing = .upTo(8192)
    // No size limit, because a pass that a store starts may still run while resources are counted.
    configuration.logger = Logger(label: "soak") { _ in SwiftLogNoOpLogHandler() }
    return configuration
  }

  func run() throws -> Result {
    // Joined, so that no resource of a thread is counted.
    let started = try (0..<threads).map { number in try OwnedThread { self.work(number) } }
    for thread in started { thread.join() }
    // Without failing calls, so that the leftovers of failed calls are removed.
    let sound = try BlobStore(directory: FilePath(directory), configuration: Self.configuration)
    var options = BlobStore.CollectionOptions()
    // The recycling bin is bounded, but not by the number of keys, so its files would hide leftovers.
    options.emptiesBin = true
    try sound.collect(options)
    return Result(
      operations: threads * operations, failedCalls: faults.count, wrongAnswers: wrongAnswers.load(ordering: .relaxed))
  }

  private func work(_ thread: Int) {
    var generator = SeededGenerator(seed: seed, thread)
    for number in 0..<operations {
      do {
        try perform(Int.random(in: 0..<1000, using: &generator), &generator)
      } catch {
        // Locks, stripes and other collections may cause the error. Otherwise a call must have failed.
        let isExpected = error.errno != nil || error.code == .busy || error.code == .collectionRunning
        if !isExpected { noteWrong("\(error)") }
      }
      if number % 100 == 0 { leak(generator.next()) }
    }
  }

  private func noteWrong(_ message: String) {
    wrongAnswers.add(1, ordering: .relaxed)
    writeError(message)
  }

  private func perform(_ choice: Int, _ generator: inout SeededGenerator) throws(BlobStoreError) {
    let number = Int.random(in: 0..<Self.keyCount, using: &generator)
    let key = BlobKey("soak \(number)")
    switch choice {
    case ..<250:
      let payload = Data(repeating: UInt8(number), count: Int.random(in: 0..<20_000, using: &generator))
      try store.store(payload, for: key, locks: choice < 20 ? .one : .none)
    case ..<600:
      if let blob = try store.load(key), !blob.payload.allSatisfy({ $0 == UInt8(number) }) { noteWrong("a mix") }
    case ..<700: try store.lock(key)
    case ..<800: try store.unlock(key, force: true)
    case ..<850: try store.touch(key)
    case ..<900: try store.remove(key)
    case ..<990: _ = try store.contains(key)
    case ..<994: for _ in try store.records() {}
    case ..<996: _ = try store.usage()
    case ..<998: _ = try store.verify()
    default: try store.collect()
    }
  }

  /// Creates the planted leak.
  private func leak(_ number: UInt64) {
    switch plant {
    case .descriptor: _ = dup(0)
    case .thread: Thread { while true { TortureClock.sleep(milliseconds: 60_000) } }.start()
    case .memory: memset(malloc(256 << 10), 1, 256 << 10)
    case .file: _ = FileManager.default.createFile(atPath: "\(directory)/.left-\(number)", contents: nil)
    case nil: break
    }
  }
}

/// Makes one in two hundred calls fail.
final class SoakFaults: Sendable {
  private struct State {
    var generator: SeededGenerator
    var count = 0
  }

  private let state: Lock<State>
  private static let errors: [Errno] = [
    .ioError, .noSpace, .permissionDenied, .tooManyOpenFiles, .noMemory, .interrupted,
  ]

  init(seed: UInt64) {
    state = Lock(State(generator: SeededGenerator(seed: seed, 1 << 32)))
  }

  /// The number of calls that were made to fail.
  var count: Int { state.withLock { $0.count } }

  func files() -> Files {
    Files { [self] call, _ in
      state.withLock { state in
        guard Int.random(in: 0..<200, using: &state.generator) == 0,
          let errno = Self.errors.randomElement(using: &state.generator)
        else { return nil }
        // A stripe that cannot be unlocked stays locked until the process ends, and kernels do not fail these calls.
        guard call != .unlockByte, call != .freeStripe else { return nil }
        state.count += 1
        return .fail(errno)
      }
    }
  }
}
