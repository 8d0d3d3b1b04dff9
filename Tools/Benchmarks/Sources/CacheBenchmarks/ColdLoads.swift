import BlobCache
import Foundation
import SystemPackage

/// Two directories with the same blobs: one where loads look first without waiting, and one where a thread makes each.
///
/// Others may write to the second, so nothing is shared in memory there, and no look is made. A load makes one `fstat` more,
/// and reads no generation.
struct TwoWays {
  let looking: BlobCache
  let hopping: BlobCache
  let keys: [BlobKey]

  init(
    _ count: Int, of byteCount: Int, at directory: FilePath,
    _ change: (inout BlobCache.Configuration) -> Void = { _ in }
  ) async throws {
    var configuration = BlobCache.Configuration()
    configuration.memory = nil
    configuration.store.durability = .none
    change(&configuration)
    let shared = directory.appending("hopping")
    try FileManager.default.createDirectory(atPath: shared.string, withIntermediateDirectories: true)
    guard chmod(shared.string, 0o1777) == 0 else { throw CocoaError(.fileWriteNoPermission) }
    hopping = try BlobCache(directory: shared, configuration: configuration)
    looking = try BlobCache(directory: directory.appending("looking"), configuration: configuration)
    keys = (0..<count).map { BlobKey(String(format: "%032d", $0)) }
    let payload = Data(repeating: 7, count: byteCount)
    for cache in [looking, hopping] {
      for key in keys { try await cache.store(payload, for: key, ttl: .seconds(100_000)) }
    }
    // Dirty pages cannot be dropped.
    sync()
  }

  /// Has the kernel drop each blob's file from memory; its names stay there.
  func dropFiles() throws {
    for cache in [looking, hopping] {
      for case let file as URL in FileManager.default.enumerator(
        at: URL(filePath: cache.directory.string), includingPropertiesForKeys: nil) ?? .init()
      where !file.lastPathComponent.hasPrefix(".") && !file.hasDirectoryPath {
        let descriptor = open(file.path, O_RDONLY)
        guard descriptor >= 0 else { throw CocoaError(.fileReadNoPermission) }
        posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED)
        close(descriptor)
      }
    }
  }

  /// Has the kernel drop all files and names.
  ///
  /// - Returns: false where that is not permitted.
  static func dropAll() -> Bool {
    let descriptor = open("/proc/sys/vm/drop_caches", O_WRONLY)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    return write(descriptor, "3", 1) == 1
  }

  func loadAll(from cache: BlobCache) async throws {
    for key in keys {
      guard try await cache.load(key) != nil else { throw CocoaError(.fileReadNoSuchFile) }
    }
  }
}

/// Blobs that lie on the disk alone: loads that look first, against loads that go to a thread at once.
func measureCold(_ scale: Scale) async throws -> [Measurement] {
  let ways = try await TwoWays(scale.count(400), of: 4096, at: scale.directory.appending("cold"))
  return [
    try await measureCold(scale, ways, "dropped files") {
      try ways.dropFiles()
      return true
    },
    try await measureCold(scale, ways, "dropped files and names") { TwoWays.dropAll() },
  ].compactMap { $0 }
}

private func measureCold(
  _ scale: Scale, _ ways: TwoWays, _ kind: String, dropping drop: () throws -> Bool
) async throws -> Measurement? {
  var times: [[Double]] = [[], []]
  for round in 0..<scale.rounds {
    for index in round.isMultiple(of: 2) ? [0, 1] : [1, 0] {
      let cache = [ways.looking, ways.hopping][index]
      // Looks at the root, so that none is due.
      _ = try await cache.load("no such key")
      guard try drop() else { return nil }
      times[index].append(try await time { try await ways.loadAll(from: cache) })
    }
  }
  func each(_ index: Int) -> String { format(median(times[index]) / Double(ways.keys.count)) }
  return Measurement(
    name: .cold, details: "\(kind): a load that looks first \(each(0)) us, one on a thread \(each(1)) us",
    ratio: ratio(times[0], times[1]), limit: 1.05)
}

/// One hundred thousand loads at once that look first, against as many that go to a thread at once.
func measureCrowd(_ scale: Scale) async throws -> Measurement {
  let count = scale.count(100_000)
  let ways = try await TwoWays(100, of: 4096, at: scale.directory.appending("crowd")) {
    $0.maxConcurrentOperations = 4
  }
  func loads(from cache: BlobCache) -> () async throws -> Void {
    {
      let tasks = (0..<count).map { number in Task { try await cache.load(ways.keys[number % 100])?.payload.count } }
      for task in tasks {
        guard try await task.value == 4096 else { throw CocoaError(.fileReadNoSuchFile) }
      }
    }
  }
  let times = try await turns(scale, [loads(from: ways.looking), loads(from: ways.hopping)])
  func each(_ index: Int) -> String { format(median(times[index]) / 1e6) }
  return Measurement(
    name: .crowd, details: "\(count) loads at once: look first \(each(0)) s, on a thread \(each(1)) s",
    ratio: ratio(times[0], times[1]), limit: 0.5)
}

/// Stores by two and by a hundred tasks, against two threads that store with `BlobStore`.
func measureStores(_ scale: Scale) async throws -> [Measurement] {
  let operations = scale.count(10_000)
  var configuration = BlobCache.Configuration()
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
