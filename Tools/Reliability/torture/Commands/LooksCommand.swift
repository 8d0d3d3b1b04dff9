internal import ArgumentParser
internal import BlobCache
internal import BlobRecord
internal import Foundation
internal import Locks
internal import Posix
internal import Synchronization
internal import SystemPackage

/// Loads that look on disk without waiting first, beside loads that go to a thread at once, of one cache.
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
    /// Microseconds of a load that looks first, and seconds of the crowd that does.
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

  /// A cache without memory, whose looks can be kept from an answer.
  private final class Trial: Sendable {
    private let cache: BlobCache
    private let keys: [BlobKey]
    private let looks: Switch

    /// Whether looks are made. Without, they have no answer before they make a call.
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
      // What is not on the disk yet cannot be dropped.
      sync()
    }

    /// - Parameter body: answers microseconds.
    /// - Returns: the medians of the rounds' ratios, and of the times of the way that looks.
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

    /// Has the kernel drop the blobs' files; it keeps their names.
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
      // Looks at the root, so that none is due.
      _ = try cache.store.contains("no such key")
    }

    func loadAll() async throws -> Double {
      let start = ContinuousClock.now
      for key in keys { try await load(key) }
      return (ContinuousClock.now - start) / .microseconds(1)
    }

    /// Loads a hundred blobs again and again, all at once.
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
