import BlobCacheRemote
import Foundation

extension RemoteBenchmarks {
  /// Measures stores of distinct keys whose uploads continue after the caller returns, at 200 MB/s for 2.5 seconds.
  static func storesBehind(_ url: RemoteURL, size: Int) async throws {
    var tier = RemoteTier(try url.makeEngine(), namespace: RemoteNamespace("\(url.namespace.name)/behind-\(size)"))
    tier.flushesOnCloseFor = .seconds(300)
    let limit = tier.waitingByteLimit
    let node = try Node(tier)
    let (rate, count) = (200e6, 500_000_000 / size)
    var (mostWaiting, latest) = (0, 0.0)
    let payload = bytes(size)
    let before = resetMostMemory()
    let start = ContinuousClock.now
    for number in 0..<count {
      let lead = .seconds(Double(number * size) / rate) - start.duration(to: .now)
      // Sleeping is inexact, so stores that are late catch up.
      if lead > .milliseconds(2) { try await Task.sleep(for: lead) }
      latest = max(latest, -(lead / .seconds(1)))
      // Each payload has separate memory, as the payloads of an app do.
      var own = Data(payload)
      withUnsafeBytes(of: number) { own.replaceSubrange(0..<$0.count, with: $0) }
      try await node.cache.store(own, for: BlobKey("\(number)"))
      if number.isMultiple(of: 16) { mostWaiting = max(mostWaiting, node.cache.remoteStatus?.waitingBytes ?? 0) }
    }
    let stores = start.duration(to: .now) / .seconds(1)
    let memory = mostMemory() - before
    let cache = node.cache
    let atEnd = cache.remoteStatus?.uploadedBytes ?? 0
    try await cache.close()
    let all = start.duration(to: .now) / .seconds(1)
    let status = cache.remoteStatus
    try await node.end()
    let (uploads, drops) = (Int(status?.uploads ?? 0), Int(status?.droppedUploads ?? 0))
    func text(_ value: Double, _ unit: String) -> String { String(format: "%.1f \(unit)", value) }
    func megabytes(_ bytes: Int) -> String { text(Double(bytes) / 1e6, "MB") }
    let reached = megabytes(Int(Double(count * size) / stores))
    let uploaded = megabytes(Int(Double(atEnd) / stores))
    print(
      "\(count) stores of \(size >> 10) KiB at 200 MB/s: \(reached)/s, \(text(latest * 1000, "ms")) late at the most")
    print("  \(uploads) uploaded, at \(uploaded)/s meanwhile, the last after \(text(all, "s"))")
    print("  \(drops) dropped and told of, \(count - uploads - drops) unaccounted for")
    print("  \(megabytes(mostWaiting)) waited at the most, of \(megabytes(limit)); \(megabytes(memory)) more memory")
  }

  /// Resets the peak memory of the process.
  ///
  /// - Returns: The current memory in bytes.
  private static func resetMostMemory() -> Int {
    if let file = FileHandle(forWritingAtPath: "/proc/self/clear_refs") { try? file.write(contentsOf: Data("5".utf8)) }
    return mostMemory()
  }

  /// Returns the peak memory of the process since the reset, in bytes.
  private static func mostMemory() -> Int {
    let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
    let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
    return (line?.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0) * 1024
  }
}
