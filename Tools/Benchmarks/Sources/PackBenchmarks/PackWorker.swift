import BlobRecord
import BlobStore
import Foundation
import Measuring
import SystemPackage
import Workbench

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#endif

/// A task that a worker process performs.
enum PackTask: String, CaseIterable {
  case load
  case replace

  var operations: Int { self == .load ? 100_000 : 20_000 }
  var title: String { self == .load ? "loads" : "stores" }
}

/// Performs tasks on request and reports their times: one line of input, one line of output.
struct PackWorker {
  private let store: BlobStore

  init(in directory: FilePath) throws {
    store = try BlobStore(directory: directory, configuration: PackPlan.configuration())
  }

  static func prepare(_ directory: FilePath, residents: Int) throws {
    try PackPlan.fill(PackWorker(in: directory).store, count: residents)
  }

  func serve() throws {
    var generator = SplitMix(seed: UInt64(getpid()))
    while let line = readLine() {
      let words = line.split(separator: " ").map(String.init)
      guard words.count == 3, let task = PackTask(rawValue: words[0]), let operations = Int(words[1]),
        let residents = Int(words[2])
      else { throw BenchmarkFailure("\"\(line)\" is no task") }
      let keys = (0..<operations).map { _ in PackPlan.key(Int.random(in: 0..<residents, using: &generator)) }
      let start = Self.processorTime()
      let elapsed = try time { try perform(task, keys) } / 1e6
      print(elapsed, Self.processorTime() - start)
      fflush(nil)
    }
  }

  private func perform(_ task: PackTask, _ keys: [BlobKey]) throws {
    switch task {
    case .load:
      for key in keys {
        let isThere = try store.load(key) != nil
        try BenchmarkFailure.require(isThere, "\(key) is not there")
      }
    case .replace:
      for key in keys { try store.store(PackPlan.payload, for: key, ttl: .seconds(Int64.max)) }
    }
  }

  /// Returns the processor time of this process in seconds.
  private static func processorTime() -> Double {
    var time = timespec()
    // Fails only for invalid clocks and pointers.
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }
}
