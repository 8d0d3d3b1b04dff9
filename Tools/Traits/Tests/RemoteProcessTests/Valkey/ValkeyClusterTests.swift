import Foundation
import Testing

@testable import BlobCacheRemote

/// A cluster that changes while it is used.
@Suite(.timeLimit(.minutes(10)), .enabled(if: ValkeyProgram.redis.missing == nil, "no redis-server"))
struct ValkeyClusterTests {
  private let records: Records

  init() throws { records = try Records() }

  /// Returns a name in a slot of the node, by a tag that is unique to the test.
  private func name(at node: ValkeyNode, _ topology: ClusterTopology) throws -> RemoteName {
    let tag = try #require(
      (0..<10_000).lazy.map { "{\(UUID().uuidString)-\($0)}" }.first { topology.server(of: $0) == node.address })
    return RemoteName("test/\(tag)/a")
  }

  @Test func keysOfAllSlotsAreFound() async throws {
    let cluster = try await ValkeyCluster.shared.value
    // One node reports the other nodes.
    var settings = cluster.settings
    settings.servers = [cluster.nodes[1].address]
    let engine = try ValkeyEngine(settings)
    let record = try records.inMemory(Data("a".utf8))
    for node in cluster.nodes {
      let name = try name(at: node, try await engine.servers.topology())
      try await engine.put(record, as: name)
      #expect(try await engine.bytes(of: name) == record.bytes)
      #expect(try await node.ask("EXISTS", name.string) == .integer(1))
      try await engine.remove(name)
    }
    #expect(try await engine.capabilities(under: RemoteName("test/")).notes.contains { $0.contains("3 nodes") })
    await engine.close()
  }

  /// While a slot moves, each of its keys is at one of two nodes. Afterwards all keys are at the new node.
  @Test func aSlotMayMove() async throws {
    let cluster = try await ValkeyCluster()
    let (source, target) = (cluster.nodes[0], cluster.nodes[1])
    let engine = try ValkeyEngine(cluster.settings)
    let name = try name(at: source, try await engine.servers.topology())
    let slot = "\(ClusterSlot.of(name.string))"
    let (old, new) = (name, RemoteName(name.string + "-new"))
    let record = try records.inMemory(Data("a".utf8))
    try await engine.put(record, as: old)
    try await target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", try await source.identifier)
    try await source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", try await target.identifier)
    #expect(try await engine.bytes(of: old) == record.bytes)
    #expect(try await engine.get(new) == nil)
    try await engine.put(record, as: new)
    #expect(try await target.ask("CLUSTER", "COUNTKEYSINSLOT", slot) == .integer(1))
    try await source.ask("MIGRATE", "127.0.0.1", "\(target.address.port)", old.string, "0", "60000")
    #expect(try await engine.bytes(of: old) == record.bytes)
    for node in [target, source] {
      try await node.ask("CLUSTER", "SETSLOT", slot, "NODE", try await target.identifier)
    }
    for name in [old, new] { #expect(try await engine.bytes(of: name) == record.bytes) }
    // The engine learns the slot's new node, and sends requests directly to it.
    try await eventually("the slot's new node is known") {
      _ = try await engine.head(old)
      return try await engine.servers.topology().server(of: old.string) == target.address
    }
    #expect(try await engine.names(RemoteName("test/")).sorted() == [old.string, new.string].sorted())
    await engine.close()
  }

  /// A replica takes over if a node ends, and if a node stops responding.
  @Test(arguments: [SIGKILL, SIGSTOP]) func aReplicaTakesOver(_ signal: Int32) async throws {
    let cluster = try await ValkeyCluster(replicas: 1)
    let (node, replica) = (cluster.nodes[0], cluster.replicas[0])
    let engine = try ValkeyEngine(cluster.settings)
    let name = try name(at: node, try await engine.servers.topology())
    let record = try records.inMemory(Data("a".utf8))
    try await engine.put(record, as: name)
    try await eventually("the replica has the key") {
      try await replica.ask("CLUSTER", "COUNTKEYSINSLOT", "\(ClusterSlot.of(name.string))") == .integer(1)
    }
    node.server.send(signal)
    // The request fails soon, or hangs until the caller cancels it, as the tier does.
    #expect(await Self.head(engine, name) == nil)
    try await replica.ask("CLUSTER", "FAILOVER", "TAKEOVER")
    try await eventually("the successor is asked") { await Self.head(engine, name) == record.head }
    // The same applies to stores.
    try await eventually("the successor takes stores") {
      do {
        try await engine.put(record, as: name)
        return true
      } catch {
        return false
      }
    }
    #expect(try await engine.servers.topology().primaries.contains(replica.address))
    await engine.close()
  }

  /// A machine that only listens finds the successor too.
  @Test func aListenerGoesToTheSuccessor() async throws {
    let cluster = try await ValkeyCluster(replicas: 1)
    let (node, replica) = (cluster.nodes[0], cluster.replicas[0])
    let engine = try ValkeyEngine(cluster.settings)
    let topology = try await engine.servers.topology()
    let channel = try #require(
      (0..<10_000).lazy.map { "changes-\($0)" }.first { topology.server(of: $0) == node.address })
    let texts = try await engine.announcements(on: channel)
    node.server.send(SIGKILL)
    await #expect(throws: RemoteError.self) { for try await _ in texts {} }
    try await replica.ask("CLUSTER", "FAILOVER", "TAKEOVER")
    try await eventually("the successor is listened to") {
      do {
        _ = try await engine.announcements(on: channel)
        return true
      } catch {
        return false
      }
    }
    await engine.close()
  }

  /// Returns `nil` after an error, and without a response within 400 ms.
  private static func head(_ engine: ValkeyEngine, _ name: RemoteName) async -> Data? {
    let request = Task { try await engine.head(name) }
    let limit = Task {
      try await Task.sleep(for: .milliseconds(400))
      request.cancel()
    }
    defer { limit.cancel() }
    do {
      return try await request.value
    } catch {
      return nil
    }
  }

  /// A request for a slot without a node results in an error, which advises CLUSTER INFO.
  @Test func aLostSlotIsAnError() async throws {
    let cluster = try await ValkeyCluster()
    let engine = try ValkeyEngine(cluster.settings)
    let node = cluster.nodes[2]
    let name = try name(at: node, try await engine.servers.topology())
    try await node.ask("CLUSTER", "DELSLOTS", "\(ClusterSlot.of(name.string))")
    try await eventually("the slot is lost") {
      do {
        _ = try await engine.head(name)
        return false
      } catch let error as RemoteError {
        return error.kind == .failed && error.message.contains("CLUSTER INFO")
      }
    }
    await engine.close()
  }
}
