import Foundation
import Workbench

/// The memory, threads and descriptors of a process.
struct ProcessUsage {
  var residentBytes: Int64
  /// The part of the resident memory that belongs to no file, such as the memory tier.
  var anonymousBytes: Int64
  var threads: Int
  var descriptors: Int

  /// Reads `/proc/self`, which only Linux has.
  init() throws {
    let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
    func number(_ name: String) throws -> Int64 {
      let line = status.split(separator: "\n").first { $0.hasPrefix(name + ":") }
      let value = line?.split(whereSeparator: { $0 == "\t" || $0 == " " }).dropFirst().first.flatMap { Int64($0) }
      guard let value else { throw BenchmarkFailure("/proc/self/status has no \(name)") }
      return value
    }
    residentBytes = try number("VmRSS") * 1024
    anonymousBytes = try number("RssAnon") * 1024
    threads = Int(try number("Threads"))
    // The listing itself has one open.
    descriptors = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count - 1
  }

  private init(residentBytes: Int64, anonymousBytes: Int64, threads: Int, descriptors: Int) {
    self.residentBytes = residentBytes
    self.anonymousBytes = anonymousBytes
    self.threads = threads
    self.descriptors = descriptors
  }

  static func - (a: ProcessUsage, b: ProcessUsage) -> ProcessUsage {
    ProcessUsage(
      residentBytes: a.residentBytes - b.residentBytes, anonymousBytes: a.anonymousBytes - b.anonymousBytes,
      threads: a.threads - b.threads, descriptors: a.descriptors - b.descriptors)
  }
}

extension ProcessUsage {
  /// One line of output of a worker.
  var line: String { "\(residentBytes) \(anonymousBytes) \(threads) \(descriptors)" }

  /// Waits for the line of a worker.
  init(of worker: WorkerProcess) throws {
    let numbers = try worker.numbers(4).map { Int64($0) }
    self.init(
      residentBytes: numbers[0], anonymousBytes: numbers[1], threads: Int(numbers[2]), descriptors: Int(numbers[3]))
  }
}
