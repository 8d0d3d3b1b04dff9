import Foundation
import Testing

/// Nodes in networks of their own, whose cables are pulled: packets are lost without a word, as no proxy loses them.
@Suite(
  .enabled(if: ValkeyProgram.redis.missing == nil, "needs redis-server: Tools/prerequisites"),
  .enabled(if: Network.missing == nil, "\(Network.missing ?? "")"), .timeLimit(.minutes(5)))
struct PartitionTests {
  /// A node that is cut off answers by what it has. When it is back, what has changed meanwhile is shared.
  @Test func aNodeThatIsCutOffGoesOn() async throws {
    let hub = try await Network("hub", Self.redis)
    let (a, b) = (try await NetworkNode(hub, 1), try await NetworkNode(hub, 2))
    #expect(try a.put("shared", "1") == 201)
    #expect(try a.put("old", "1") == 201)
    try await eventually("it is shared") { try b.get("shared").text == "1" }

    try await a.cutOff(true)
    // What lies here is answered, stores and removals are taken, and what only others have is a miss.
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
    // A removal is tried until it succeeds.
    #expect(try b.get("old").status == 404)
    try await eventually("what it stores is shared") {
      let key = "new-\(UUID().uuidString)"
      #expect(try a.put(key, "3") == 201)
      try await a.drain()
      return try b.get(key).text == "3"
    }
  }

  /// With no engine at all each is a cache for itself, and both are one again after it.
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

  /// The engine, at the hub's end of each cable. It is begun when they are there.
  private static func redis(_ directory: URL) throws -> [String] {
    [
      try Programs.required("redis-server"), "--bind", "0.0.0.0", "--protected-mode", "no", "--port", "6379", "--dir",
      directory.path, "--save", "",
    ]
  }
}

/// A node of the fleet in a network of its own, which has one cable: to the hub.
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
    // Requests of the test come by a file, which needs no network.
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
