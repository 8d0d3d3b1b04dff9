import Foundation
import Testing

/// The guarantees between machines, checked with random requests to five processes that are killed occasionally.
@Suite(.timeLimit(.minutes(10))) struct FleetModelTests {
  /// The permitted responses, implemented independently from Spec/Remote.md.
  private struct Model {
    /// The objects of the engine.
    var objects: [Int: String] = [:]
    /// The copies in the directory of each node.
    var copies: [[Int: String]]
    /// The keys that a node may remember as absent from the engine: T6.
    var absences: [Set<Int>]

    init(nodes: Int) { (copies, absences) = (Array(repeating: [:], count: nodes), Array(repeating: [], count: nodes)) }

    mutating func put(_ value: String, _ key: Int, at node: Int) {
      (objects[key], copies[node][key]) = (value, value)
      absences[node].remove(key)
    }

    mutating func remove(_ key: Int, at node: Int) { (objects[key], copies[node][key]) = (nil, nil) }

    /// - Returns: A Boolean value that indicates whether the load's result is permitted.
    mutating func get(_ found: String?, _ key: Int, at node: Int) -> Bool {
      // A load returns the copy, regardless of changes by other nodes: T12.
      if let copy = copies[node][key] { return found == copy }
      if found == nil, absences[node].contains(key) { return true }
      guard found == objects[key] else { return false }
      copies[node][key] = found
      if found == nil { absences[node].insert(key) } else { absences[node].remove(key) }
      return true
    }

    mutating func restart(_ node: Int) { absences[node] = [] }
  }

  @Test(arguments: FleetStore.available, [1]) func eachAnswerIsOneThatIsPromised(
    _ store: FleetStore, seed: UInt64
  ) async throws {
    let url = try await store.url("model-\(UUID().uuidString)")
    let place = FileManager.default.temporaryDirectory.appending(path: "fleet-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: place) }
    func start(_ node: Int) async throws -> FleetNode {
      try await FleetNode(remote: url, cache: place.appending(path: "\(node)"))
    }
    var (nodes, random): ([FleetNode], SplitMix) = ([], SplitMix(seed: seed))
    for node in 0..<5 { nodes.append(try await start(node)) }
    var model = Model(nodes: nodes.count)
    for step in 0..<100 {
      let (node, key) = (Int.random(in: 0..<5, using: &random), Int.random(in: 0..<8, using: &random))
      switch Int.random(in: 0..<100, using: &random) {
      case 0..<20:
        let value = "\(step) " + String(repeating: "x", count: Int.random(in: 0..<3000, using: &random))
        #expect([201, 204].contains(try nodes[node].put("\(key)", value)))
        model.put(value, key, at: node)
      case 20..<35:
        #expect([204, 404].contains(try nodes[node].send("DELETE", "/v1/blobs/\(key)").status))
        // The removal reaches the engine asynchronously.
        try await nodes[node].drain()
        model.remove(key, at: node)
      case 35..<37:
        nodes[node].server.kill()
        nodes[node] = try await start(node)
        model.restart(node)
      default:
        let reply = try nodes[node].get("\(key)")
        let found = reply.status == 200 ? reply.text : nil
        #expect([200, 404].contains(reply.status))
        let isPromised = model.get(found, key, at: node)
        #expect(isPromised, "step \(step): node \(node) answers \(found?.prefix(8) ?? "nothing") of \(key)")
      }
    }
  }
}
