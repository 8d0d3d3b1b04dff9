import BlobCache
import BlobStore
import Dispatch
import Foundation
import SystemPackage

/// A cache without a memory layer, with blobs of one size on disk.
private struct BlobsOnDisk {
  let cache: BlobCache
  let keys: [BlobKey]
  let byteCount: Int

  init(_ byteCount: Int, count: Int = 100, at directory: FilePath) async throws {
    var configuration = BlobCache.Configuration()
    // Measures records that have a file each; PackBenchmarks measures packed records.
    configuration.store.packing = .off
    configuration.memory = nil
    configuration.store.durability = .none
    cache = try BlobCache(directory: directory, configuration: configuration)
    keys = (0..<count).map { BlobKey(String(format: "%032d", $0)) }
    self.byteCount = byteCount
    let payload = Data(repeating: 7, count: byteCount)
    for key in keys { try await cache.store(payload, for: key, ttl: .seconds(100_000)) }
  }

  func key(_ number: Int) -> BlobKey { keys[number % keys.count] }

  /// - Returns: The number of bytes, so that a miss is visible in the sum.
  func load(_ number: Int) async throws -> Int { try await cache.load(key(number))?.payload.count ?? 0 }

  func loadFromStore(_ number: Int) throws -> Int { try cache.store.load(key(number))?.payload.count ?? 0 }
}

/// Returns the times of contenders that take turns, in microseconds for each round.
func turns(
  _ scale: Scale, _ contenders: [() async throws -> Void]
) async throws -> [[Double]] {
  var times = [[Double]](repeating: [], count: contenders.count)
  for round in 0...scale.rounds {
    for index in round.isMultiple(of: 2) ? Array(contenders.indices) : contenders.indices.reversed() {
      let duration = try await time(contenders[index])
      if round > 0 { times[index].append(duration) }
    }
  }
  return times
}

func ratio(_ first: [Double], _ second: [Double]) -> Double { median(zip(first, second).map { $0 / $1 }) }

/// Measures loads of a blob whose file is in the page cache: `BlobCache.load` against `BlobStore.load`, one by one.
func measureDiskHit(_ scale: Scale, byteCount: Int, limit: Double) async throws -> Measurement {
  let operations = scale.count(8000)
  let blobs = try await BlobsOnDisk(byteCount, at: scale.directory.appending("disk-hit-\(byteCount)"))
  let times = try await turns(
    scale,
    [
      {
        var bytes = 0
        for number in 0..<operations { bytes += try await blobs.load(number) }
        precondition(bytes == operations * byteCount, "a load has missed")
      },
      {
        var bytes = 0
        for number in 0..<operations { bytes += try blobs.loadFromStore(number) }
        precondition(bytes == operations * byteCount, "a load has missed")
      },
    ])
  func each(_ index: Int) -> String { format(median(times[index]) / Double(operations)) }
  return Measurement(
    name: .diskHit, details: "\(byteCount) B: BlobCache.load \(each(0)) us, BlobStore.load \(each(1)) us",
    ratio: ratio(times[0], times[1]), limit: limit)
}

/// Measures loads that need a thread, against loads on a Dispatch queue, the hop that a program would make itself.
///
/// Runs on tmpfs, which does not support nonblocking reads, so that each load needs a thread.
func measureHop(_ scale: Scale) async throws -> Measurement? {
  guard FileManager.default.isWritableFile(atPath: "/dev/shm") else { return nil }
  let operations = scale.count(4000)
  let directory = FilePath("/dev/shm/blobcache-benchmark-\(UUID().uuidString)")
  defer { try? FileManager.default.removeItem(atPath: directory.string) }
  let blobs = try await BlobsOnDisk(128, at: directory)
  let queue = DispatchQueue(label: "hop")
  let times = try await turns(
    scale,
    [
      { for number in 0..<operations { _ = try await blobs.load(number) } },
      {
        for number in 0..<operations {
          _ = await withCheckedContinuation { continuation in
            queue.async { continuation.resume(returning: (try? blobs.loadFromStore(number)) ?? 0) }
          }
        }
      },
      { for number in 0..<operations { _ = try blobs.loadFromStore(number) } },
    ])
  func each(_ index: Int) -> Double { median(times[index]) / Double(operations) }
  return Measurement(
    name: .hop,
    details:
      "BlobCache.load \(format(each(0))) us, BlobStore.load on a queue of Dispatch \(format(each(1))) us, "
      + "BlobStore.load \(format(each(2))) us; the hops alone",
    ratio: median(times[0].indices.map { (times[0][$0] - times[2][$0]) / (times[1][$0] - times[2][$0]) }), limit: 1)
}

/// Measures the throughput of a thousand tasks that load 4 KiB, against two threads that load from the store.
func measureThroughput(_ scale: Scale) async throws -> Measurement {
  let operations = scale.count(100_000)
  let (tasks, threads) = (1000, 2)
  let blobs = try await BlobsOnDisk(4096, at: scale.directory.appending("throughput"))
  let times = try await turns(
    scale,
    [
      {
        try await withThrowingTaskGroup { group in
          for task in 0..<tasks {
            group.addTask {
              for number in 0..<operations / tasks { _ = try await blobs.load(task &+ number) }
            }
          }
          try await group.waitForAll()
        }
      },
      {
        await withCheckedContinuation { continuation in
          Thread.detachNewThread {
            DispatchQueue.concurrentPerform(iterations: threads) { thread in
              for number in 0..<operations / threads { _ = try? blobs.loadFromStore(thread &+ number) }
            }
            continuation.resume()
          }
        }
      },
    ])
  func each(_ index: Int) -> String { format(median(times[index]) / Double(operations)) }
  return Measurement(
    name: .throughput,
    details: "4 KiB: a load in \(each(0)) us by 1,000 tasks, in \(each(1)) us by two threads with BlobStore",
    // The throughput must be at least 0.8 of the baseline's.
    ratio: ratio(times[0], times[1]), limit: 1 / 0.8)
}
