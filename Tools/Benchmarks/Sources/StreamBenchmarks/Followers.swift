import BlobCache
import BlobRecord
import BlobStore
import Foundation
import Measuring
import SystemPackage
import Workbench

/// Followers of a blob that is being written: their latency, their cost for the writer, and their memory.
struct Followers {
  /// The number of pieces that the writer in another process appends, and the pause between them in seconds.
  private static let pieces = 400
  private static let pause = 0.013

  private let directory: FilePath
  private let rounds: Int

  init(in directory: FilePath, rounds: Int) {
    self.directory = directory.appending("followed")
    self.rounds = rounds
  }

  func measured() throws -> [StreamResult] {
    try [latency(), cost(), memory()].flatMap { $0 }
  }

  // MARK: In another process

  /// Appends the current time repeatedly.
  static func write(in directory: FilePath) throws {
    let store = try BlobStore(directory: directory)
    var writer = try store.openWriter(for: "times", visibility: .whileWriting)
    for _ in 0..<pieces {
      // The random part of the pause prevents a fixed phase between the writes and the follower's polls.
      Thread.sleep(forTimeInterval: pause + .random(in: 0..<0.01))
      try writer.append(withUnsafeBytes(of: DispatchTime.now().uptimeNanoseconds) { Data($0) })
    }
    try writer.commit()
  }

  private func latency() throws -> [StreamResult] {
    let store = try BlobStore(directory: directory)
    let child = Process()
    child.executableURL = URL(filePath: CommandLine.arguments[0])
    child.arguments = ["--write-for-followers", directory.string]
    try child.run()
    var follower: BlobFollower?
    while follower == nil { follower = try store.openFollower(for: "times", touching: false) }
    var times: [Double] = []
    var memory = [UInt8](repeating: 0, count: 8)
    for number in 0..<Self.pieces {
      var span = memory.mutableSpan
      var bytes = span.mutableBytes
      let count = try follower?.read(at: Int64(8 * number), into: &bytes)
      let now = DispatchTime.now().uptimeNanoseconds
      try BenchmarkFailure.require(count == 8, "following")
      let appended = memory.withUnsafeBytes { $0.loadUnaligned(as: UInt64.self) }
      times.append(Double(now - appended) / 1e6)
    }
    child.waitUntilExit()
    times.sort()
    let (median, late) = (times[times.count / 2], times[times.count * 99 / 100])
    let figures = String(format: "median %.2f ms, 99%% %.2f ms", median, late)
    return [
      StreamResult(
        work: "a piece at a follower in another process", figures: figures, value: median, limit: 5, isLeast: false)
    ]
  }

  // MARK: In this process

  private func cost() throws -> [StreamResult] {
    let store = try BlobStore(directory: directory)
    let piece = Data(repeating: 7, count: 64 << 10)
    var ratios: [Double] = []
    // The pieces are few and the rounds many, because the writes vary by more than the difference to measure.
    for round in 0...(rounds * 20) {
      var times = [Double](repeating: 0, count: 2)
      for way in turns(of: 2, in: round) {
        var writer = try store.openWriter(for: "cost", visibility: way == 0 ? .afterCommit : .whileWriting)
        var failure: (any Error)?
        times[way] = ThreadTime.measure {
          do {
            for _ in 0..<100 { try writer.append(piece) }
          } catch {
            failure = error
          }
        }
        if let failure { throw failure }
        writer.discard()
      }
      if round > 0 { ratios.append(times[1] / times[0]) }
    }
    let quartiles = Quartiles(of: ratios)
    return [
      StreamResult(
        work: "pieces of 64 KiB that may be followed",
        figures: "processor time beside those that may not", value: quartiles.median, limit: 1.01, isLeast: false)
    ]
  }

  /// Measures many tasks, each of which waits for the first byte.
  private func memory() throws -> [StreamResult] {
    let cache = try BlobCache(directory: directory)
    let answers = DispatchSemaphore(value: 0)
    let outcome = Outcome()
    let before = try residentBytes()
    Task {
      do {
        let writer = try await cache.openWriter(for: "many", visibility: .whileWriting)
        let readers = try await Self.readers(in: cache)
        // The pause ends when all tasks wait.
        try await Task.sleep(for: .seconds(1))
        outcome.bytes = try residentBytes() - before
        let start = ContinuousClock.now
        try await writer.append(Data(count: 64 << 10))
        for reader in readers { try BenchmarkFailure.require(try await reader.value == 10, "following") }
        outcome.duration = ContinuousClock.now - start
        try await writer.discard()
      } catch {
        outcome.failure = error
      }
      answers.signal()
    }
    answers.wait()
    if let failure = outcome.failure { throw failure }
    let milliseconds = Double(outcome.duration.components.attoseconds) / 1e15
    return [
      StreamResult(
        work: "MiB of 10,000 followers", figures: String(format: "all have read in %.0f ms", milliseconds),
        value: Double(outcome.bytes) / Double(1 << 20), limit: 100, isLeast: false)
    ]
  }

  private static func readers(in cache: BlobCache) async throws -> [Task<Int, any Error>] {
    var readers: [Task<Int, any Error>] = []
    for _ in 0..<10_000 {
      guard let follower = try await cache.openFollower(for: "many", timeout: .seconds(100), touching: false) else {
        throw BenchmarkFailure("the stream is gone")
      }
      readers.append(Task { try await follower.read(at: 0, atMost: 10).count })
    }
    return readers
  }

  /// The result of a task. Unchecked: read only after the task has ended.
  private final class Outcome: @unchecked Sendable {
    var bytes = 0
    var duration = Duration.zero
    var failure: (any Error)?
  }

  private func residentBytes() throws -> Int {
    let text = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ")
    return (text.count > 1 ? Int(text[1]) ?? 0 : 0) * 4096
  }
}
