import BlobCacheRemote
import Foundation
import Testing

@testable import BlobCache

/// Machines that share an engine, with separate directories.
@Suite(.timeLimit(.minutes(5))) struct MachineTests {
  private let namespace = "machines/\(UUID().uuidString)"

  private func machine(
    _ fixture: EngineFixture, _ change: (inout RemoteTier) -> Void = { _ in }
  ) async throws -> Machine {
    try Machine(try await fixture.make(), namespace: namespace, change)
  }

  @Test(
    arguments: EngineFixture.available,
    [BlobKey("album/42"), "a b%ä\u{1F600}", BlobKey(String(repeating: "long ", count: 99))])
  func whatOneStoresTheOtherLoads(_ fixture: EngineFixture, _ key: BlobKey) async throws {
    let (one, other) = (try await machine(fixture), try await machine(fixture))
    let payload = Records.bytes(100_000, seed: 1)
    try await one.cache.store(payload, for: key, ttl: .seconds(600), extendedData: Data("text/plain".utf8))
    let here = try #require(try await one.cache.load(key))
    let there = try #require(try await other.cache.load(key))
    #expect(there.payload == payload)
    #expect(there.header.ttl == 600 && there.header.updateTime == here.header.updateTime)
    #expect(there.extendedData == Data("text/plain".utf8))
    #expect(other.cache.remoteStatus?.hits == 1)
    // The machine that has loaded the blob keeps its copy; a third machine finds no blob.
    let outcome = try await one.cache.removeEverywhere(key)
    #expect(outcome.here == .done && outcome.there == .done, "\(outcome)")
    #expect(try await other.cache.load(key)?.payload == payload)
    let third = try await machine(fixture)
    #expect(try await third.cache.load(key) == nil)
    #expect(third.cache.remoteStatus?.misses == 1 && third.cache.remoteStatus?.failures == 0)
    for machine in [one, other, third] { try await machine.cache.close() }
  }

  /// A large blob is read from its file when its upload begins.
  @Test(arguments: EngineFixture.available) func aLargeBlobGoesAndComes(_ fixture: EngineFixture) async throws {
    let (one, other) = (try await machine(fixture), try await machine(fixture))
    let limit = one.cache.engine.remote?.tier.engine.largestObject ?? .max
    let payload = Records.bytes(Int(min(20_000_000, limit / 2)), seed: 2)
    try await one.cache.store(payload, for: "large")
    #expect(try await other.cache.load("large")?.payload == payload)
    for machine in [one, other] { try await machine.cache.close() }
  }

  /// If several machines miss a blob concurrently, only one produces it.
  @Test(arguments: EngineFixture.available) func oneMachineProduces(_ fixture: EngineFixture) async throws {
    let engine = try await fixture.make()
    let grants = try await engine.capabilities(under: RemoteName(namespace)).leases
    await engine.close()
    guard grants, fixture.decidesRaces else { return }
    var machines: [Machine] = []
    for _ in 0..<4 {
      machines.append(
        try await machine(fixture) {
          var leases = RemoteTier.Leases()
          (leases.duration, leases.waits) = (.seconds(240), .seconds(240))
          $0.leases = leases
          $0.remembersAbsenceFor = .milliseconds(1)
        })
    }
    let produced = Counter()
    let make = { @Sendable () async throws -> Data in Data("made by \(produced.increment())".utf8) }
    try await withThrowingTaskGroup(of: Data.self) { group in
      for cache in machines.map(\.cache) {
        group.addTask { try await cache.load("key", orStore: make).payload }
      }
      for try await payload in group { #expect(payload == Data("made by 1".utf8)) }
    }
    for machine in machines { try await machine.cache.close() }
  }
}
