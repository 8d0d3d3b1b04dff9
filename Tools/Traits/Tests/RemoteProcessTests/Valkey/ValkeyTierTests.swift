import Foundation
import SystemPackage
import Testing

@testable import BlobCacheRemote

/// Caches of two machines on one server.
@Suite(.timeLimit(.minutes(5)), .enabled(if: ValkeyProgram.redis.missing == nil, "no redis-server"))
struct ValkeyTierTests {
  private let namespace = RemoteNamespace("tier-\(UUID().uuidString)")

  private func withMachines(
    _ settings: ValkeyEngine.Settings, _ body: (BlobCache, BlobCache) async throws -> Void
  ) async throws {
    let directory = FileManager.default.temporaryDirectory.appending(path: "tier-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: directory) }  // a leftover directory is harmless
    let machines = try ["a", "b"].map { name in
      var tier = RemoteTier(try ValkeyEngine(settings), namespace: namespace)
      tier.writing = .through
      tier.deadlines.firstByte = .seconds(60)
      tier.deadlines.change = .seconds(60)
      var configuration = BlobCache.Configuration()
      configuration.remote = tier
      return try BlobCache(
        directory: FilePath(directory.appending(path: name).path), configuration: configuration)
    }
    try await body(machines[0], machines[1])
    for machine in machines { try await machine.close() }
  }

  @Test(arguments: [false, true]) func whatOneStoresTheOtherHas(_ isCluster: Bool) async throws {
    let node = try await ValkeyNode.redis.value
    let settings = isCluster ? try await ValkeyCluster.shared.value.settings : node.settings
    try await withMachines(settings) { a, b in
      let payload = Records.bytes(3_000_000, seed: 9)
      try await a.store(payload, for: "album/42 ä", ttl: .seconds(1000))
      #expect(try await b.load("album/42 ä")?.payload == payload)
      let (first, second) = (try await a.header(for: "album/42 ä"), try await b.header(for: "album/42 ä"))
      #expect(second?.ttl == 1000)
      #expect(first?.updateTime == second?.updateTime)
      if !isCluster {
        let names = try await node.ask("KEYS", "\(namespace.name)/*").elements?.compactMap(\.text) ?? []
        #expect(names.count == 1)
        let rest = try #require(try await node.ask("PTTL", names.first ?? "").integer)
        // The lower bound tolerates minutes of delay on a slow machine.
        #expect((500_000...1_060_000).contains(rest))
      }
      _ = try await a.removeEverywhere("album/42 ä")
      try await b.remove("album/42 ä")
      #expect(try await b.load("album/42 ä") == nil)
    }
  }

  @Test func aDeadServerIsAMiss() async throws {
    let node = try await ValkeyNode(.redis)
    try await withMachines(node.settings) { a, _ in
      try await a.store(Data("here".utf8), for: "here", ttl: .seconds(1000))
      node.server.kill()
      #expect(try await a.load("there") == nil)
      #expect(try await a.load("here")?.payload == Data("here".utf8))
      try await a.store(Data("new".utf8), for: "new", ttl: .seconds(1000))
      #expect(a.remoteStatus?.failures ?? 0 > 0)
    }
  }
}
