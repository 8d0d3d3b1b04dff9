import BlobCache
import Foundation
import Synchronization
import SystemPackage

/// Measures the 99th percentile of load times while a thousand removals wait, compared with no removals.
func measureReadsUnderRemovals(_ scale: Scale) async throws -> Measurement {
  var configuration = BlobCache.Configuration()
  // Measures records that have a file each; PackBenchmarks measures packed records.
  configuration.store.packing = .off
  configuration.memory = nil
  configuration.store.durability = .none
  let cache = try BlobCache(directory: scale.directory.appending("removals"), configuration: configuration)
  let payload = Data(repeating: 7, count: 4096)
  let kept = (0..<100).map { BlobKey("kept \($0)") }
  for key in kept { try await cache.store(payload, for: key, ttl: .seconds(100_000)) }
  let loads = scale.count(2000)
  let removals = (0..<1000).map { BlobKey("removed \($0)") }
  var (quiet, busy): ([Double], [Double]) = ([], [])
  for round in 0...scale.rounds {
    let alone = try await slowest(loads, of: kept, cache)
    for key in removals { try await cache.store(payload, for: key) }
    let isOver = Maximum()
    let background = Task {
      while isOver.value == 0 {
        let tasks = removals.map { key in Task { try await cache.remove(key) } }
        for task in tasks { _ = try await task.value }
      }
    }
    let among = try await slowest(loads, of: kept, cache)
    isOver.note(1)
    try await background.value
    guard round > 0 else { continue }
    quiet.append(alone)
    busy.append(among)
  }
  return Measurement(
    name: .readsUnderRemovals,
    details: "99th percentile of loads \(format(median(quiet))) us alone, \(format(median(busy))) us among removals",
    ratio: median(zip(busy, quiet).map { $0 / $1 }), limit: 3)
}

/// Returns the 99th percentile of the times of consecutive loads, in microseconds.
private func slowest(_ count: Int, of keys: [BlobKey], _ cache: BlobCache) async throws -> Double {
  var times: [Double] = []
  for number in 0..<count {
    times.append(try await time { _ = try await cache.load(keys[number % keys.count]) })
  }
  return quantile(0.99, of: times)
}

/// Measures the threads and the memory of one hundred thousand concurrent loads, with four threads for loads.
func measureManyOperations(_ scale: Scale) async throws -> Measurement {
  let count = scale.count(100_000)
  var configuration = BlobCache.Configuration()
  // Measures records that have a file each; PackBenchmarks measures packed records.
  configuration.store.packing = .off
  configuration.memory = nil
  configuration.store.durability = .none
  configuration.maxConcurrentOperations = 4
  let cache = try BlobCache(directory: scale.directory.appending("many"), configuration: configuration)
  for number in 0..<100 { try await cache.store(Data(repeating: 7, count: 4096), for: BlobKey("key \(number)")) }
  let (threadsBefore, memoryBefore) = (try status("Threads"), try status("VmHWM"))
  let mostThreads = Maximum()
  let duration = try await time {
    let tasks = (0..<count).map { number in
      Task {
        let found = try await cache.load(BlobKey("key \(number % 100)"))
        precondition(found != nil)
        guard number.isMultiple(of: 1000) else { return }
        let threads = try status("Threads")
        mostThreads.note(threads)
      }
    }
    for task in tasks { try await task.value }
  }
  let added = mostThreads.value - threadsBefore
  let kilobytes = try status("VmHWM") - memoryBefore
  return Measurement(
    name: .manyOperations,
    details:
      "\(count) loads in \(format(duration / 1e6)) s, \(kilobytes / 1024) MiB and \(added) threads more than before; "
      + "threads of the four for loads and one for each core",
    ratio: Double(added) / Double(4 + ProcessInfo.processInfo.activeProcessorCount), limit: 1)
}

/// Returns a number of /proc/self/status, or 0 if the field does not exist.
private func status(_ field: String) throws -> Int {
  guard let status = FileManager.default.contents(atPath: "/proc/self/status") else { return 0 }
  for line in String(decoding: status, as: UTF8.self).split(separator: "\n") where line.hasPrefix(field + ":") {
    return Int(line.split(whereSeparator: { $0 == ":" || $0 == "\t" || $0 == " " })[1]) ?? 0
  }
  return 0
}

private final class Maximum: Sendable {
  private let number = Mutex(0)
  var value: Int { number.withLock { $0 } }
  func note(_ candidate: Int) { number.withLock { $0 = max($0, candidate) } }
}
