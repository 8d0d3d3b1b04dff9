import Foundation
import NIOCore

@testable import BlobCacheRemote

/// A program with the RESP protocol.
enum ValkeyProgram: String, Sendable {
  case redis = "redis-server"
  case valkey = "valkey-server"

  var path: String? { Programs.path(rawValue) }
  /// The reason why the program is unavailable, or `nil` if it is available.
  var missing: String? { path == nil ? "no \(rawValue); Tools/prerequisites installs it" : nil }
}

/// A Redis or Valkey server, which may be a node of a cluster.
final class ValkeyNode: Sendable {
  let server: EngineServer
  let address: ValkeyAddress

  /// - Parameters:
  ///   - options: The command-line options of the program.
  ///   - users: The lines of an ACL file. If empty, one user has all rights.
  ///   - certificates: The certificates for TLS, or `nil` for plain text.
  init(
    _ program: ValkeyProgram = .redis, _ options: [String] = [], users: [String] = [], isNode: Bool = false,
    certificates: Certificates? = nil
  ) async throws {
    let path = try Programs.required(program.rawValue)
    let ports = try EngineServer.freePorts(2)
    address = ValkeyAddress("127.0.0.1", port: ports[0])
    server = try await EngineServer(program.rawValue) { directory in
      var command = [
        path, "--bind", "127.0.0.1", "127.0.0.2", "--dir", directory.path, "--save", "", "--appendonly", "no",
      ]
      if let certificates {
        command += ["--port", "0", "--tls-port", "\(ports[0])", "--tls-ca-cert-file", certificates.path("ca.pem")]
        command += [
          "--tls-cert-file", certificates.path("server.pem"), "--tls-key-file", certificates.path("server.key"),
        ]
      } else {
        command += ["--port", "\(ports[0])"]
      }
      if isNode {
        command += [
          "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "2000",
        ]
        command += ["--cluster-port", "\(ports[1])", "--repl-diskless-sync-delay", "0"]
        // Tests determine when a replica takes over.
        command += ["--cluster-replica-no-failover", "yes"]
      }
      if !users.isEmpty {
        let list = directory.appending(path: "users.acl")
        try Data((users.joined(separator: "\n") + "\n").utf8).write(to: list)
        command += ["--aclfile", list.path]
      }
      return command + options
    } isReady: {
      $0.log.contains("Ready to accept connections")
    }
  }

  /// Returns the settings of an engine for this server only.
  var settings: ValkeyEngine.Settings {
    var settings = ValkeyEngine.Settings([address])
    settings.largestObject = 64 << 20
    // The timeout tolerates slow machines.
    settings.connectTime = .seconds(60)
    return settings
  }

  /// Returns the reply to a command that no engine sends.
  @discardableResult func ask(_ command: String...) async throws -> RESPValue {
    let connection = try await RESPConnection(
      host: address.host, port: address.port, within: .seconds(60), encryption: nil)
    defer { connection.close() }
    let reply = try await connection.send([RESPCommand(command)])[0]
    if case .error(let text) = reply { throw Failure("\(command): \(text)") }
    return reply
  }

  static let redis = Task { try await ValkeyNode(.redis) }
  static let valkey = Task { try await ValkeyNode(.valkey) }
}

/// Nodes that share the slots of a cluster, and replicas of the first node.
final class ValkeyCluster: Sendable {
  let nodes: [ValkeyNode]
  let replicas: [ValkeyNode]

  init(replicas count: Int = 0) async throws {
    let made = try await withThrowingTaskGroup(of: ValkeyNode.self) { group in
      for _ in 0..<3 + count { group.addTask { try await ValkeyNode(.redis, isNode: true) } }
      return try await group.reduce(into: [ValkeyNode]()) { $0.append($1) }
    }
    (nodes, replicas) = (Array(made[..<3]), Array(made[3...]))
    for (index, bounds) in [(0, 5460), (5461, 10922), (10923, 16383)].enumerated() {
      try await nodes[index].ask("CLUSTER", "ADDSLOTSRANGE", "\(bounds.0)", "\(bounds.1)")
      try await nodes[index].ask("CLUSTER", "SET-CONFIG-EPOCH", "\(index + 1)")
    }
    for node in made.dropFirst() {
      let bus = try await node.ask("CONFIG", "GET", "cluster-port").elements?.last?.text ?? ""
      try await made[0].ask("CLUSTER", "MEET", "127.0.0.1", "\(node.address.port)", bus)
    }
    try await eventually("the nodes know each other") {
      for node in made {
        let state = try await node.ask("CLUSTER", "INFO").text ?? ""
        guard state.contains("cluster_state:ok"), state.contains("cluster_known_nodes:\(made.count)") else {
          return false
        }
      }
      return true
    }
    // A short timeout forms a cluster fast, but would later declare a slow node dead.
    for node in made { try await node.ask("CONFIG", "SET", "cluster-node-timeout", "60000") }
    for replica in replicas {
      try await replica.ask("CLUSTER", "REPLICATE", try await nodes[0].identifier)
      try await eventually("a replica has its primary") {
        try await replica.ask("INFO", "replication").text?.contains("master_link_status:up") == true
      }
    }
  }

  var settings: ValkeyEngine.Settings {
    var settings = ValkeyEngine.Settings(nodes.map(\.address))
    settings.largestObject = 64 << 20
    // The timeout tolerates slow machines.
    settings.connectTime = .seconds(60)
    return settings
  }

  static let shared = Task { try await ValkeyCluster() }
}

extension ValkeyNode {
  var identifier: String {
    get async throws { try await ask("CLUSTER", "MYID").text ?? "" }
  }
}
