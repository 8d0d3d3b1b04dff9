internal import ArgumentParser
internal import BlobCache
internal import BlobRecord
internal import Foundation
internal import Locks
internal import Posix
internal import Synchronization
internal import SystemPackage

/// Compares loads that first try a read without waiting with loads that use a thread immediately, in one cache.
struct LooksCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "looks",
    abstract: "Measure loads that look without waiting first, beside loads that a thread makes at once.",
    discussion: """
      The two take turns in one directory. Ratios are medians of the rounds' ratios; below 1 the look is faster. With \
      --drop-caches, as root, the kernel also drops all files and names of the machine. Prints one object of JSON.
      """)

  @Option(help: "Rounds.") var rounds = 15
  @Option(help: "Blobs of 4 KiB.") var blobs = 300
  @Option(help: "Loads at once.") var crowd = 100_000
  @Flag(help: "Also have the kernel drop everything, before each round.") var dropCaches = false
  @Option(help: "A directory to make.") var directory: String

  private struct Report: Codable {
    var type = "looks"
    var droppedFiles = 0.0
    var droppedCaches: Double?
    var crowd = 0.0
    /// The microseconds of a load that tries first, and the seconds of the crowd with such loads.
    var droppedFileMicroseconds = 0.0
    var crowdSeconds = 0.0
  }

  private final class Outcome: Sendable { let result = Lock<Result<Report, any Error>?>(nil) }

  func validate() throws {
    guard rounds > 0, blobs > 0, crowd > 0 else { throw ValidationError("numbers must be above zero") }
  }

  func run() throws {
    let trial = try Trial(directory, blobs: blobs)
    let outcome = Outcome()
    let isDone = DispatchSemaphore(value: 0)
    Task.detached { [self] in
      do {
        let report = try await measured(trial)
        outcome.result.withLock { $0 = .success(report) }
      } catch {
        outcome.result.withLock { $0 = .failure(error) }
      }
      isDone.signal()
    }
    isDone.wait()
    guard let report = try outcome.result.withLock({ $0 })?.get() else { throw ExitCode(2) }
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    print(String(decoding: try encoder.encode(report), as: UTF8.self))
  }

  private func measured(_ trial: Trial) async throws -> Report {
    var report = Report()
    let dropped = try await trial.compared(rounds) {
      try trial.dropFiles()
      return try await trial.loadAll()
    }
    report.droppedFiles = dropped.ratio
    report.droppedFileMicroseconds = dropped.looking / Double(blobs)
    if dropCaches {
      report.droppedCaches = try await trial.compared(rounds) {
        try trial.dropCaches()
        return try await trial.loadAll()
      }.ratio
    }
    let crowded = try await trial.compared(max(rounds / 3, 1)) { try await trial.load(crowd) }
    report.crowd = crowded.ratio
    report.crowdSeconds = crowded.looking / 1e6
    return report
  }

  /// A cache without a memory tier, whose reads without waiting can be disabled.
  private final class Trial: Sendable {
    private let cache: BlobCache
    private let keys: [BlobKey]
    private let looks: Switch

    /// Enables reads without waiting. While disabled, they return no answer and make no system call.
    private final class Switch: Sendable { let isOn = Atomic(true) }

    init(_ directory: String, blobs: Int) throws {
      let looks = Switch()
      var configuration = BlobCache.Configuration()
      configuration.store.packing = .off
      configuration.store.durability = .none
      configuration.memory = nil
      configuration.maxConcurrentOperations = 4
      let files = Files { call, _ in
        guard call == .openCached, !looks.isOn.load(ordering: .relaxed) else { return nil }
        return .fail(.resourceTemporarilyUnavailable)
      }
      cache = try BlobCache(directory: FilePath(directory), configuration: configuration, files: files)
      keys = (0..<blobs).map { BlobKey("key \($0)") }
      self.looks = looks
      for key in keys { try cache.store.store(Data(repeating: 7, count: 4096), for: key, ttl: .seconds(100_000)) }
      // Only files that are on the disk can be dropped from the page cache.
      sync()
    }

    /// - Parameter body: A closure that returns microseconds.
    /// - Returns: The medians of the rounds' ratios, and of the times with reads that do not wait.
    func compared(_ rounds: Int, _ body: () async throws -> Double) async throws -> (ratio: Double, looking: Double) {
      var times: [[Double]] = [[], []]
      for round in 0..<rounds {
        for way in round.isMultiple(of: 2) ? [0, 1] : [1, 0] {
          looks.isOn.store(way == 0, ordering: .relaxed)
          times[way].append(try await body())
        }
      }
      func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }
      return (median(zip(times[0], times[1]).map { $0 / $1 }), median(times[0]))
    }

    /// Drops the content of the blobs' files from the page cache. The kernel keeps their names.
    func dropFiles() throws {
      let found = FileManager.default.enumerator(
        at: URL(filePath: cache.directory.string), includingPropertiesForKeys: nil)
      while let file = found?.nextObject() as? URL {
        guard !file.hasDirectoryPath, !file.lastPathComponent.hasPrefix(".") else { continue }
        let descriptor = open(file.path, O_RDONLY)
        guard descriptor >= 0 else { throw CocoaError(.fileReadNoPermission) }
        defer { close(descriptor) }
        #if os(Linux)
          posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED)
        #endif
      }
    }

    func dropCaches() throws {
      try Data("3".utf8).write(to: URL(filePath: "/proc/sys/vm/drop_caches"))
      // Checks the root, so that the check is not due during the measurement.
      _ = try cache.store.contains("no such key")
    }

    func loadAll() async throws -> Double {
      let start = ContinuousClock.now
      for key in keys { try await load(key) }
      return (ContinuousClock.now - start) / .microseconds(1)
    }

    /// Loads a hundred blobs repeatedly, with all loads running concurrently.
    func load(_ count: Int) async throws -> Double {
      let start = ContinuousClock.now
      let tasks = (0..<count).map { number in
        Task { try await load(keys[number % min(keys.count, 100)]) }
      }
      for task in tasks { try await task.value }
      return (ContinuousClock.now - start) / .microseconds(1)
    }

    private func load(_ key: BlobKey) async throws {
      guard try await cache.load(key)?.payload.count == 4096 else { throw CocoaError(.fileReadNoSuchFile) }
    }
  }
}
