import Foundation
import Testing

/// Nodes in network namespaces whose links are disconnected. Unlike a proxy, this loses packets silently.
@Suite(
  .enabled(if: ValkeyProgram.redis.missing == nil, "needs redis-server: Tools/prerequisites"),
  .enabled(if: Network.missing == nil, "\(Network.missing ?? "")"), .timeLimit(.minutes(5)))
struct PartitionTests {
  /// A disconnected node serves its local records. After it is reconnected, nodes share changes again.
  @Test func aNodeThatIsCutOffGoesOn() async throws {
    let hub = try await Network("hub", Self.redis)
    let (a, b) = (try await NetworkNode(hub, 1), try await NetworkNode(hub, 2))
    #expect(try a.put("shared", "1") == 201)
    #expect(try a.put("old", "1") == 201)
    try await eventually("it is shared") { try b.get("shared").text == "1" }

    try await a.cutOff(true)
    // Local records are served, stores and removals succeed, and records of other nodes are misses.
    #expect(try a.get("shared").text == "1")
    #expect(try b.put("theirs", "2") == 201)
    #expect(try a.get("theirs").status == 404)
    #expect(try a.put("ours", "2") == 201)
    #expect(try a.get("ours").text == "2")
    #expect(try a.send("DELETE", "/v1/blobs/old").status == 204)
    #expect(try a.get("old").status == 404)
    #expect(try b.get("ours").status == 404)
    #expect(try b.get("shared").text == "1")
    try await eventually("it is left alone") {
      _ = try a.get("none-\(UUID().uuidString)")
      return try a.send("GET", "/status").text.contains("\"condition\":\"leftAlone\"")
    }

    try await a.cutOff(false)
    try await eventually("what others have is found") { try a.get("theirs").text == "2" }
    try await a.drain()
    // A removal is retried until it succeeds.
    #expect(try b.get("old").status == 404)
    try await eventually("what it stores is shared") {
      let key = "new-\(UUID().uuidString)"
      #expect(try a.put(key, "3") == 201)
      try await a.drain()
      return try b.get(key).text == "3"
    }
  }

  /// Without any engine each node works as a separate cache, and afterwards they share blobs again.
  @Test func allMayBeCutOff() async throws {
    let hub = try await Network("hub", Self.redis)
    let nodes = [try await NetworkNode(hub, 1), try await NetworkNode(hub, 2)]
    for node in nodes { try await node.cutOff(true) }
    for (number, node) in nodes.enumerated() { #expect(try node.put("key", "\(number)") == 201) }
    for (number, node) in nodes.enumerated() { #expect(try node.get("key").text == "\(number)") }
    for node in nodes { try await node.cutOff(false) }
    for (number, node) in nodes.enumerated() {
      try await eventually("what it stores is shared") {
        let key = "new-\(UUID().uuidString)"
        #expect(try node.put(key, "3") == 201)
        try await node.drain()
        return try nodes[1 - number].get(key).text == "3"
      }
      #expect(try node.get("key").text == "\(number)")
    }
  }

  /// Returns the command of the engine, which listens at the hub's end of each link and starts when the links exist.
  private static func redis(_ directory: URL) throws -> [String] {
    [
      try Programs.required("redis-server"), "--bind", "0.0.0.0", "--protected-mode", "no", "--port", "6379", "--dir",
      directory.path, "--save", "",
    ]
  }
}

/// A node of the fleet in a network namespace with one link, to the hub.
private final class NetworkNode: Sendable {
  private let network: Network
  private let hub: Network
  private let cable: String
  private let socket: String

  init(_ hub: Network, _ number: Int) async throws {
    self.hub = hub
    cable = "cable\(number)"
    network = try await Network("node\(number)") { directory in
      [
        FleetNode.program, directory.appending(path: "cache").path, "--listen", "unix:\(directory.path)/socket",
        "--remote", "valkey://10.77.\(number).1:6379?namespace=fleet&insecure=true",
      ]
    }
    // The test's requests use a Unix socket, which needs no network.
    socket = "\(network.server.directory.path)/socket"
    try await hub.connect(to: network, cable, "10.77.\(number)")
    if number == 1 {
      try hub.begin()
      try await eventually("the engine listens") { hub.server.log.contains("Ready to accept connections") }
    }
    try network.begin()
    try await eventually("the node listens") { Connection(toFile: socket) != nil }
  }

  func cutOff(_ isCutOff: Bool) async throws { try await hub.run("ip", "link", "set", cable, isCutOff ? "down" : "up") }

  func drain() async throws {
    try await eventually("nothing waits") { try send("GET", "/status").text.contains("\"waitingChanges\":0,") }
  }

  func put(_ key: String, _ text: String) throws -> Int {
    try send("PUT", "/v1/blobs/\(key)", Data(text.utf8)).status
  }

  func get(_ key: String) throws -> Reply { try send("GET", "/v1/blobs/\(key)") }

  func send(_ method: String, _ target: String, _ body: Data = Data()) throws -> Reply {
    try Reply(from: Connection(toFile: socket), method, target, [:], body)
  }
}
