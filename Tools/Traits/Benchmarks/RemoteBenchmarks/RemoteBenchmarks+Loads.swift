import BlobCacheRemote
import Foundation

extension RemoteBenchmarks {
  /// Measures loads that the engine serves, against the engine's own GET of the same objects.
  ///
  /// A further baseline performs the required steps in sequence: a local miss, the GET, and a local store. Each round
  /// has new keys, because ext4 creates a file slowly where one was unlinked recently.
  static func hits(_ url: RemoteURL, size: Int) async throws {
    let namespace = RemoteNamespace("\(url.namespace.name)/hits-\(size)")
    func tier(_ mode: RemoteTier.Mode, answersBeforeStoring: Bool = false) throws -> RemoteTier {
      var tier = RemoteTier(try url.makeEngine(), namespace: namespace)
      (tier.mode, tier.writing) = (mode, .through)
      tier.deadlines.firstByte = .seconds(30)
      tier.answersBeforeStoring = answersBeforeStoring
      return tier
    }
    // The first rounds establish connections and create directories, so they are not counted.
    let (count, allRounds) = (size > 100_000 ? 20 : 100, rounds + 2)
    let keys = (0..<(count * allRounds)).map { BlobKey("key \($0)") }
    let payload = bytes(size)
    let writer = try Node(try tier(.readWrite))
    for key in keys { try await writer.cache.store(payload, for: key) }
    try await writer.end()
    let engine = try url.makeEngine()
    let names = try await list(engine, namespace)
    precondition(names.count == keys.count)
    let (reader, alone) = (try Node(try tier(.readOnly)), try Node(nil))
    let early = try Node(try tier(.readOnly, answersBeforeStoring: true))
    func get(_ name: RemoteName) async throws {
      var count = 0
      for try await piece in try await engine.get(name)!.pieces { count += piece.count }
      precondition(count > size)
    }
    let kinds: [(RemoteName, BlobKey) async throws -> Void] = [
      { name, _ in try await get(name) },
      { _, key in
        let found = try await reader.cache.load(key)
        precondition(found?.payload.count == size)
      },
      { _, key in
        let found = try await early.cache.load(key)
        precondition(found?.payload.count == size)
      },
      { name, key in
        let found = try await alone.cache.load(key)
        precondition(found == nil)
        try await get(name)
        try await alone.cache.store(payload, for: key)
      },
    ]
    var medians = Array(repeating: [Double](), count: kinds.count)
    for round in 0..<allRounds {
      var times = Array(repeating: [Double](), count: kinds.count)
      // Short turns spread other load on the machine over all kinds equally.
      for start in stride(from: round * count, to: (round + 1) * count, by: 10) {
        for step in kinds.indices {
          let kind = (step + start / 10 + round) % kinds.count
          for index in start..<(start + 10) {
            times[kind].append(try await time { try await kinds[kind](names[index], keys[index]) })
          }
        }
      }
      if round > 1 { for kind in kinds.indices { medians[kind].append(median(times[kind])) } }
    }
    let (gets, loads, earlyLoads, parts) = (medians[0], medians[1], medians[2], medians[3])
    for name in names { try await engine.remove(name) }
    await engine.close()
    for node in [reader, early, alone] { try await node.end() }
    report("hit of \(size >> 10) KiB that the engine answers", loads, "the engine's GET", gets, goal: "1.15")
    report("the same, answered before it is stored", earlyLoads, "the engine's GET", gets, goal: "1.15")
    report(
      "a look, a GET and a store of \(size >> 10) KiB, without a tier", parts, "the engine's GET", gets, goal: "none")
  }

  private static func list(_ engine: any RemoteEngine, _ namespace: RemoteNamespace) async throws -> [RemoteName] {
    var names: [RemoteName] = []
    var next: String?
    repeat {
      let page = try await engine.list(RemoteName("\(namespace.name)/"), page: next)
      (names, next) = (names + page.names, page.next)
    } while next != nil
    return names
  }

  /// Measures loads that the directory serves, with a tier and without one.
  static func localHits(_ url: RemoteURL) async throws {
    var tiers: [RemoteTier] = []
    for number in 0..<2 {
      var tier = RemoteTier(try url.makeEngine(), namespace: RemoteNamespace("\(url.namespace.name)/local-\(number)"))
      tier.mode = .readOnly
      tiers.append(tier)
    }
    try await compare(tiers, "hit of 4 KiB in the directory", goal: "1.02") { node in
      try await node.cache.store(bytes(4096), for: "key")
    } load: { node, _ in
      _ = try await node.cache.load("key", touching: false)
    }
  }

  /// Measures misses with an open circuit breaker, and misses without a tier.
  static func missesWithOpenBreaker() async throws {
    let dead = try RemoteURL("s3://nothing?endpoint=http://127.0.0.1:1")
    var tiers: [RemoteTier] = []
    for _ in 0..<2 {
      var tier = RemoteTier(try dead.makeEngine(), namespace: dead.namespace)
      (tier.breaker.failures, tier.breaker.pause, tier.breaker.longestPause) = (1, .seconds(600), .seconds(600))
      tiers.append(tier)
    }
    try await compare(tiers, "miss while the engine is left alone", goal: "5 us more") { node in
      try await node.cache.store(bytes(4096), for: "key")
      while let status = node.cache.remoteStatus, status.condition != .leftAlone {
        _ = try await node.cache.load("first")
      }
    } load: { node, number in
      _ = try await node.cache.load(BlobKey("\(number)"))
    }
  }

  /// Compares loads of caches with a tier and without one, with two caches each, because directories differ.
  private static func compare(
    _ tiers: [RemoteTier], _ what: String, goal: String, prepare: (Node) async throws -> Void,
    load: (Node, Int) async throws -> Void
  ) async throws {
    let nodes = try tiers.flatMap { [try Node($0), try Node(nil)] }
    for node in nodes { try await prepare(node) }
    let count = 500
    var times: [[Double]] = [[], []]
    for round in 0..<(30 * rounds) {
      var sums = [0.0, 0]
      for step in nodes.indices {
        // The order is 0, 1, 2, 3, and then 3, 2, 1, 0.
        let index = round.isMultiple(of: 2) ? step : nodes.count - 1 - step
        sums[index % 2] += try await time { for number in 0..<count { try await load(nodes[index], number) } }
      }
      for kind in 0..<2 { times[kind].append(sums[kind] / Double(count * tiers.count)) }
    }
    for node in nodes { try await node.end() }
    report("\(what), with a tier", times[0], "without", times[1], goal: goal)
    let difference = median(zip(times[0], times[1]).map { $0 - $1 })
    print("  \(String(format: "%.2f", difference)) us more, by the median of the rounds' differences")
  }
}
