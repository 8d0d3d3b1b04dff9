import BlobCacheRemote
import Foundation

/// What a remote tier costs: `Tools/benchmark remote`.
///
/// All that is compared is measured in turns, in one process, against one server.
@main struct RemoteBenchmarks {
  private static let rounds = 9

  static func main() async throws {
    guard CommandLine.arguments.count == 2 else {
      print("usage: RemoteBenchmarks URL   an engine, as Spec/Remote.md names it")
      exit(64)
    }
    let url = try RemoteURL(CommandLine.arguments[1])
    print("what | against | us | us | ratio | goal")
    for size in [4 << 10, 64 << 10, 1 << 20] { try await hits(url, size: size) }
    try await localHits(url)
    try await missesWithOpenBreaker()
    try await loadsWithHungEngine()
    try await storesBehind(url)
  }

  private static func report(_ what: String, _ times: [Double], _ reference: String, _ others: [Double], goal: String) {
    let ratios = zip(times, others).map { $0 / $1 }
    func text(_ value: Double) -> String { String(format: "%.2f", value) }
    print(
      "\(what) | \(reference) | \(text(median(times))) | \(text(median(others))) | \(text(median(ratios))) | \(goal)")
  }

  private static func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }

  /// Microseconds for each of `count` turns.
  private static func time(_ count: Int, _ body: () async throws -> Void) async rethrows -> Double {
    let start = ContinuousClock.now
    try await body()
    return Double((ContinuousClock.now - start) / .microseconds(1)) / Double(count)
  }

  private static func bytes(_ count: Int) -> Data { Data((0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31) }) }

  /// A cache that the benchmark throws away.
  private struct Node {
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
      // A cache that stored nothing has made none.
      if FileManager.default.fileExists(atPath: directory.path) { try FileManager.default.removeItem(at: directory) }
    }
  }

  /// A load that the engine answers, against the engine's own GET of the same objects.
  private static func hits(_ url: RemoteURL, size: Int) async throws {
    let namespace = RemoteNamespace("\(url.namespace.name)/hits-\(size)")
    func tier() throws -> RemoteTier {
      var tier = RemoteTier(try url.makeEngine(), namespace: namespace)
      tier.writing = .through
      tier.deadlines.firstByte = .seconds(30)
      return tier
    }
    let keys = (0..<(size > 100_000 ? 40 : 200)).map { BlobKey("key \($0)") }
    let writer = try Node(try tier())
    for key in keys { try await writer.cache.store(bytes(size), for: key) }
    try await writer.end()
    let engine = try url.makeEngine()
    var names: [RemoteName] = []
    var next: String?
    repeat {
      let page = try await engine.list(RemoteName("\(namespace.name)/"), page: next)
      (names, next) = (names + page.names, page.next)
    } while next != nil
    var (loads, gets): ([Double], [Double]) = ([], [])
    for round in 0..<(rounds + 1) {
      let get = try await time(names.count) {
        for name in names {
          var count = 0
          for try await piece in try await engine.get(name)!.pieces { count += piece.count }
          precondition(count > size)
        }
      }
      let node = try Node(try tier())
      // Its first connection is not compared.
      _ = try await node.cache.load("none")
      let load = try await time(keys.count) {
        for key in keys {
          let found = try await node.cache.load(key)
          precondition(found?.payload.count == size)
        }
      }
      try await node.end()
      // The first round warms the server's caches.
      if round > 0 { (loads, gets) = (loads + [load], gets + [get]) }
    }
    for name in names { try await engine.remove(name) }
    await engine.close()
    report("hit of \(size >> 10) KiB that the engine answers", loads, "the engine's GET", gets, goal: "1.15")
  }

  /// A load that the directory answers, with a tier and without.
  private static func localHits(_ url: RemoteURL) async throws {
    var tier = RemoteTier(try url.makeEngine(), namespace: RemoteNamespace("\(url.namespace.name)/local"))
    tier.mode = .readOnly
    let (with, without) = (try Node(tier), try Node(nil))
    for node in [with, without] { try await node.cache.store(bytes(4096), for: "key") }
    var times: [[Double]] = [[], []]
    for round in 0..<(3 * rounds) {
      let nodes = round.isMultiple(of: 2) ? [(0, with), (1, without)] : [(1, without), (0, with)]
      for (index, node) in nodes {
        times[index].append(
          try await time(2000) { for _ in 0..<2000 { _ = try await node.cache.load("key", touching: false) } })
      }
    }
    for node in [with, without] { try await node.end() }
    report("hit of 4 KiB in the directory, with a tier", times[0], "without", times[1], goal: "1.02")
  }

  /// A miss while the engine is left alone, and without a tier.
  private static func missesWithOpenBreaker() async throws {
    let dead = try RemoteURL("s3://nothing?endpoint=http://127.0.0.1:1")
    var tier = RemoteTier(try dead.makeEngine(), namespace: dead.namespace)
    (tier.breaker.failures, tier.breaker.pause, tier.breaker.longestPause) = (1, .seconds(600), .seconds(600))
    let (with, without) = (try Node(tier), try Node(nil))
    while with.cache.remoteStatus?.condition != .leftAlone { _ = try await with.cache.load("first") }
    var times: [[Double]] = [[], []]
    for round in 0..<(3 * rounds) {
      let nodes = round.isMultiple(of: 2) ? [(0, with), (1, without)] : [(1, without), (0, with)]
      for (index, node) in nodes {
        times[index].append(
          try await time(2000) { for key in 0..<2000 { _ = try await node.cache.load(BlobKey("\(key)")) } })
      }
    }
    for node in [with, without] { try await node.end() }
    report("miss while the engine is left alone", times[0], "miss without a tier", times[1], goal: "5 us more")
  }

  /// A thousand loads of a thousand keys, while the engine takes connections and never answers.
  private static func loadsWithHungEngine() async throws {
    let (listener, port) = try silentListener()
    defer { close(listener) }
    let hung = try RemoteURL("http://127.0.0.1:\(port)/")
    let tier = RemoteTier(try hung.makeEngine(), namespace: hung.namespace)
    let (with, without) = (try Node(tier), try Node(nil))
    func run(_ node: Node) async throws -> Double {
      try await time(1) { for key in 0..<1000 { _ = try await node.cache.load(BlobKey("\(key)")) } } / 1e6
    }
    let (slow, fast) = (try await run(with), try await run(without))
    let failures = with.cache.remoteStatus?.failures ?? 0
    for node in [with, without] { try await node.end() }
    let bound = Double(tier.breaker.failures) * (tier.deadlines.firstByte / .seconds(1))
    print(
      "1,000 loads while the engine hangs | without a tier | \(String(format: "%.3f s | %.3f s", slow, fast)) | "
        + "\(failures) requests failed | at most \(bound) s more")
  }

  /// A socket whose connections the system takes, and nobody answers.
  private static func silentListener() throws -> (descriptor: Int32, port: UInt16) {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let isListening = withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        bind(descriptor, address, length) == 0 && listen(descriptor, 1024) == 0
          && getsockname(descriptor, address, &length) == 0
      }
    }
    guard descriptor >= 0, isListening else { throw POSIXError(.EADDRNOTAVAIL) }
    return (descriptor, UInt16(bigEndian: address.sin_port))
  }

  /// Stores that go on to the engine behind the caller.
  private static func storesBehind(_ url: RemoteURL) async throws {
    for size in [64 << 10, 1 << 20] {
      var tier = RemoteTier(try url.makeEngine(), namespace: RemoteNamespace("\(url.namespace.name)/behind"))
      tier.flushesOnCloseFor = .seconds(120)
      let node = try Node(tier)
      let count = (128 << 20) / size
      let payload = bytes(size)
      let stores = try await time(1) {
        for key in 0..<count { try await node.cache.store(payload, for: BlobKey("\(key % 50)")) }
      }
      let cache = node.cache
      let rest = try await time(1) { try await cache.close() }
      let status = cache.remoteStatus
      try await node.end()
      let megabytes = Double(count * size) / 1_000_000
      print(
        "stores of \(size >> 10) KiB: \(Int(megabytes / stores * 1e6)) MB/s, \(status?.uploads ?? 0) of \(count) uploaded, "
          + "\(Int(Double(status?.uploadedBytes ?? 0) / (stores + rest))) MB/s of uploads, "
          + "\(status?.droppedUploads ?? 0) dropped, \(mostMegabytes()) MB of memory at the most")
    }
  }

  /// The most memory that the process had, with the copies of the payload that the benchmark makes.
  private static func mostMegabytes() -> Int {
    var usage = rusage()
    // 0 is RUSAGE_SELF, which has another type on each platform.
    getrusage(0, &usage)
    return usage.ru_maxrss / 1000
  }
}
