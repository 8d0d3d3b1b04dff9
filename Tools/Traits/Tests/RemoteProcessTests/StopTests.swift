import Foundation
import Synchronization
import Testing

/// A node that is told to stop while its engine has not confirmed all changes: Spec/Remote.md, T21.
@Suite(.timeLimit(.minutes(10))) struct StopTests {
  private final class Gate: Sendable {
    let isOpen = Atomic(false)
  }

  /// An engine that answers a PUT once a gate is open.
  private func engine(_ gate: Gate) throws -> ScriptedServer {
    try ScriptedServer { head in
      guard head.hasPrefix("PUT") else { return ScriptedServer.answer("404 Not Found") }
      while !gate.isOpen.load(ordering: .relaxed) { usleep(10_000) }
      return ScriptedServer.answer("201 Created")
    }
  }

  private func node(_ engine: ScriptedServer, flush: String) async throws -> FleetNode {
    try await FleetNode(
      remote: "http://127.0.0.1:\(engine.port)/objects?namespace=stop",
      ["--remote-timeout", "5m", "--remote-flush", flush])
  }

  private static func isPut(_ head: String) -> Bool { head.hasPrefix("PUT") }

  /// Changes that wait when the signal arrives are sent before the end. Eight of them are in progress at a time.
  @Test func theEngineHasTimeToConfirm() async throws {
    let gate = Gate()
    let engine = try engine(gate)
    let node = try await node(engine, flush: "10m")
    for number in 0..<20 { #expect(try node.put("key\(number)", "hello") == 201) }
    try await eventually("eight are under way") { engine.requests.count { Self.isPut($0) } == 8 }
    node.server.send(SIGTERM)
    try await eventually("the node no longer listens") { !isListening(at: node.port) }
    // A node that waited for two seconds would have ended by now.
    try await Task.sleep(for: .seconds(3))
    gate.isOpen.store(true, ordering: .relaxed)
    try await eventually("all are confirmed") { engine.requests.count { Self.isPut($0) } == 20 }
    #expect(!node.server.log.contains("closed before"))
  }

  @Test func whatIsNotConfirmedIsLogged() async throws {
    let gate = Gate()
    let engine = try engine(gate)
    let node = try await node(engine, flush: "1s")
    for number in 0..<20 { #expect(try node.put("key\(number)", "hello") == 201) }
    node.server.send(SIGTERM)
    try await node.waitForLog("had confirmed 20 stores and 0 removals")
    gate.isOpen.store(true, ordering: .relaxed)
  }
}
