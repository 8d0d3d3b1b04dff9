import Foundation

/// A node of a fleet: `blobcache-serve` on a directory, with a remote tier.
final class FleetNode: Sendable {
  let server: EngineServer
  let port: Int

  static var program: String { Bundle.main.bundleURL.appending(path: "blobcache-serve").path }

  /// Options by which a store returns after its upload, with a timeout that tolerates slow machines.
  static let patient = ["--remote-writing", "through", "--remote-timeout", "5m"]

  /// - Parameters:
  ///   - remote: The tier's URL, or `nil` for no tier.
  ///   - options: Additional options.
  ///   - port: The port, or `nil` for a free one.
  ///   - cache: The directory, which outlives the node, or `nil` for a temporary one.
  init(remote: String?, _ options: [String] = patient, port: Int? = nil, cache: URL? = nil) async throws {
    let port = try port ?? EngineServer.freePorts(1)[0]
    self.port = port
    server = try await EngineServer("node") { directory in
      FleetStore.environment + [Self.program, (cache ?? directory.appending(path: "cache")).path]
        + ["--listen", "127.0.0.1:\(port)"] + (remote.map { ["--remote", $0] + options } ?? [])
    } isReady: { _ in
      isListening(at: port)
    }
  }

  /// Starts a node with several directories, by a configuration file.
  init(configuration: (URL) -> String) async throws {
    let port = try EngineServer.freePorts(1)[0]
    self.port = port
    let text = configuration
    server = try await EngineServer("node") { directory in
      let file = directory.appending(path: "serve.json")
      try Data(text(directory).utf8).write(to: file)
      return FleetStore.environment + [Self.program, "--config", file.path, "--listen", "127.0.0.1:\(port)"]
    } isReady: { _ in
      isListening(at: port)
    }
  }

  func put(_ key: String, _ text: String, _ fields: [String: String] = [:]) throws -> Int {
    try send("PUT", "/v1/blobs/\(key)", fields, Data(text.utf8)).status
  }

  func get(_ key: String) throws -> Reply { try send("GET", "/v1/blobs/\(key)") }

  func send(
    _ method: String, _ target: String, _ fields: [String: String] = [:], _ body: Data = Data()
  ) throws -> Reply {
    try Reply(from: Connection(to: port), method, target, fields, body)
  }

  /// Waits until the engine has received all changes.
  func drain() async throws {
    try await eventually("nothing waits at \(port)") {
      try send("GET", "/status").text.contains("\"waitingChanges\":0,")
    }
  }

  func waitForLog(_ text: String) async throws {
    try await eventually("the log says \(text)") { server.log.contains(text) }
  }
}

/// The shared store of a fleet's nodes.
struct FleetStore: Sendable, CustomStringConvertible {
  let description: String
  /// Returns the URL of a namespace.
  let url: @Sendable (_ namespace: String) async throws -> String

  /// The secrets of the object store, which no URL contains.
  static let environment = ["/usr/bin/env", "AWS_ACCESS_KEY_ID=AKTEST", "AWS_SECRET_ACCESS_KEY=SKTEST"]

  static let serve = FleetStore(description: "blobcache-serve") { namespace in
    "\(try await BlobCacheServe.shared.value.endpoint)?namespace=\(namespace)"
  }

  static let redis = FleetStore(description: "Redis") { namespace in
    "valkey://\(try await ValkeyNode.redis.value.address)?namespace=\(namespace)"
  }

  static let available: [FleetStore] =
    [serve] + (ValkeyProgram.redis.missing == nil ? [redis] : [])
    + (SeaweedFS.isThere
      ? [
        FleetStore(description: "SeaweedFS") { namespace in
          "s3://cache/\(namespace)?endpoint=http://127.0.0.1:\(try await SeaweedFS.shared.value.port)"
        }
      ] : [])
}
