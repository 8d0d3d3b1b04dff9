import BlobCache
import Foundation
import SystemPackage

/// Measures stores by two tasks and by a hundred tasks, against two threads that store with `BlobStore`.
func measureStores(_ scale: Scale) async throws -> [Measurement] {
  let operations = scale.count(10_000)
  var configuration = BlobCache.Configuration()
  // Measures records that have a file each; PackBenchmarks measures packed records.
  configuration.store.packing = .off
  configuration.memory = nil
  configuration.store.durability = .none
  let cache = try BlobCache(directory: scale.directory.appending("stores"), configuration: configuration)
  let payload = Data(repeating: 7, count: 4096)
  @Sendable func key(_ number: Int) -> BlobKey { BlobKey(String(format: "%032d", number % 1000)) }
  func stores(by tasks: Int) -> () async throws -> Void {
    {
      try await withThrowingTaskGroup { group in
        for task in 0..<tasks {
          group.addTask {
            for number in 0..<operations / tasks { try await cache.store(payload, for: key(number &* tasks &+ task)) }
          }
        }
        try await group.waitForAll()
      }
    }
  }
  let times = try await turns(
    scale,
    [
      stores(by: 2), stores(by: 100),
      {
        await withCheckedContinuation { continuation in
          Thread.detachNewThread {
            DispatchQueue.concurrentPerform(iterations: 2) { thread in
              for number in 0..<operations / 2 { try? cache.store.store(payload, for: key(number &* 2 &+ thread)) }
            }
            continuation.resume()
          }
        }
      },
    ])
  func each(_ index: Int) -> String { format(median(times[index]) / Double(operations)) }
  return [2, 100].enumerated().map { index, tasks in
    Measurement(
      name: .stores,
      details: "4 KiB: a store in \(each(index)) us by \(tasks) tasks, in \(each(2)) us by two threads with BlobStore",
      ratio: ratio(times[index], times[2]), limit: 2)
  }
}
