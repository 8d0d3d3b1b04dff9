import BlobCacheRemote
import Foundation

/// Measures the costs of a remote tier: `Tools/benchmark remote`.
///
/// Compared work takes turns in one process, against one server. A figure is the median of the rounds.
@main struct RemoteBenchmarks {
  static let rounds = 9

  private static let parts: [(name: String, measure: @Sendable (RemoteURL) async throws -> Void)] = [
    ("hits", { url in for size in [4 << 10, 64 << 10, 1 << 20] { try await hits(url, size: size) } }),
    ("local", { url in try await localHits(url) }),
    ("open", { _ in try await missesWithOpenBreaker() }),
    ("hung", { _ in try await loadsWithHungEngine() }),
    ("behind", { url in for size in [64 << 10, 1 << 20] { try await storesBehind(url, size: size) } }),
  ]

  static func main() async throws {
    let wanted = CommandLine.arguments.dropFirst(2)
    guard CommandLine.arguments.count > 1, wanted.allSatisfy({ name in parts.contains { $0.name == name } }) else {
      print("usage: RemoteBenchmarks URL [PART…]   URL: an engine, as Spec/Remote.md names it")
      print("parts: \(parts.map(\.name).joined(separator: " ")); without, all of them")
      exit(64)
    }
    let url = try RemoteURL(CommandLine.arguments[1])
    print("what | against | us | us | ratio | goal")
    for part in parts where wanted.isEmpty || wanted.contains(part.name) { try await part.measure(url) }
    if let load = try? String(contentsOfFile: "/proc/loadavg", encoding: .utf8) {
      print("the machine's load at the end: \(load.split(separator: " ").prefix(3).joined(separator: " "))")
    }
  }

  /// - Parameters:
  ///   - times: The microseconds of each round.
  ///   - others: The microseconds of the reference in the same rounds.
  static func report(_ what: String, _ times: [Double], _ reference: String, _ others: [Double], goal: String) {
    let ratios = zip(times, others).map { $0 / $1 }
    func text(_ value: Double) -> String { String(format: "%.2f", value) }
    print(
      "\(what) | \(reference) | \(text(median(times))) | \(text(median(others))) | \(text(median(ratios))) | \(goal)")
  }

  static func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }

  /// Returns the duration in microseconds.
  static func time(_ body: () async throws -> Void) async rethrows -> Double {
    let start = ContinuousClock.now
    try await body()
    return Double((ContinuousClock.now - start) / .microseconds(1))
  }

  static func bytes(_ count: Int) -> Data { Data((0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31) }) }
}

/// A temporary cache of the benchmark.
struct Node {
  let cache: BlobCache
  private let directory: URL

  init(_ tier: RemoteTier?) throws {
    directory = FileManager.default.temporaryDirectory.appending(path: "remote-benchmark-\(UUID().uuidString)")
    var configuration = BlobCache.Configuration()
    configuration.memory = nil
    configuration.remote = tier
    cache = try BlobCache(directory: FilePath(directory.path), configuration: configuration)
  }

  func end() async throws {
    try await cache.close()
    // A cache without stores has not created a directory.
    if FileManager.default.fileExists(atPath: directory.path) { try FileManager.default.removeItem(at: directory) }
  }
}
