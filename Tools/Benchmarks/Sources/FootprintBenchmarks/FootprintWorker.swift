import BlobCache
import BlobRecord
import BlobStore
import Foundation
import SystemPackage
import Workbench

/// A process that opens a cache, stores blobs, and then waits.
struct FootprintWorker {
  let directory: FilePath
  let isPacked: Bool
  /// A Boolean value that indicates whether the memory tier has room for all blobs.
  var keepsAllInMemory = false
  /// A Boolean value that indicates whether the blobs are kept in a dictionary instead of a cache, for comparison.
  var isDictionary = false
  /// The numbers of the keys to store.
  let keys: Range<Int>

  /// The bytes of each payload.
  static let payloadByteCount = 100
  /// Idle threads of a cache end after five seconds.
  private static let pause: Duration = .seconds(7)

  /// Starts a process that calls `run`.
  func start() throws -> WorkerProcess {
    try WorkerProcess(
      ["--work", directory.string, "--keys", "\(keys.lowerBound)", "\(keys.upperBound)"]
        + (isPacked ? ["--packed"] : []) + (keepsAllInMemory ? ["--kept"] : [])
        + (isDictionary ? ["--dictionary"] : []))
  }

  /// Prints what the open cache uses in addition to the same program without it, and waits for the end of the input.
  func run() async throws {
    // The same program without the cache makes keys and payloads, and waits, too.
    try await Task.sleep(for: .milliseconds(100))
    _ = (Self.key(0), Self.payload(0), try ProcessUsage().line)
    let before = try ProcessUsage()
    if isDictionary {
      var blobs: [String: Data] = [:]
      for key in keys { blobs[Self.key(key).string] = Self.payload(key) }
      try await report(since: before)
      return withExtendedLifetime(blobs) {}
    }
    var configuration = BlobCache.Configuration()
    configuration.store.packing = isPacked ? .upTo(8192) : .off
    configuration.store.limits.freeSpaceFloor = 0
    if keepsAllInMemory {
      configuration.memory?.byteLimit = 1 << 30
      configuration.memory?.respondsToMemoryPressure = false
    }
    let cache = try BlobCache(directory: directory, configuration: configuration)
    for key in keys { try await cache.store(Self.payload(key), for: Self.key(key), ttl: .seconds(Int64.max)) }
    try await report(since: before)
    try await cache.close()
  }

  private func report(since before: ProcessUsage) async throws {
    try await Task.sleep(for: Self.pause)
    print((try ProcessUsage() - before).line)
    fflush(nil)
    _ = readLine()
  }
}

extension FootprintWorker {
  private static func payload(_ number: Int) -> Data {
    var bytes = [UInt8](repeating: 7, count: payloadByteCount)
    bytes[0] = UInt8(truncatingIfNeeded: number)
    return Data(bytes)
  }

  /// Returns a key of 24 bytes.
  private static func key(_ number: Int) -> BlobKey { BlobKey("https://example/" + String(format: "%08d", number)) }
}
