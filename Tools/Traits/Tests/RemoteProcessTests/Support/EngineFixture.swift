import BlobCacheRemote
import Foundation
import Testing

/// An engine with its server.
struct EngineFixture: Sendable, CustomTestStringConvertible {
  let name: String
  /// The reason why the engine is unavailable, or `nil` if it is available.
  let missing: String?
  /// A Boolean value that indicates whether only one of several concurrent puts of an absent object can succeed.
  var decidesRaces = true
  /// Creates an engine, which the caller closes.
  let make: @Sendable () async throws -> any RemoteEngine

  /// The engines whose servers are installed. The others are printed with the reason.
  static let available = all.filter { fixture in
    guard let missing = fixture.missing else { return true }
    print("The engine \(fixture.name) is not tried: \(missing)")
    return false
  }

  var testDescription: String { name }

  private static let all: [EngineFixture] = [
    EngineFixture(name: "SeaweedFS", missing: SeaweedFS.isThere ? nil : "no weed; Tools/prerequisites installs it") {
      try S3Engine(try await SeaweedFS.shared.value.settings())
    },
    EngineFixture(name: "nginx", missing: Nginx.isThere ? nil : "no nginx; Tools/prerequisites installs it") {
      try HTTPEngine(HTTPEngine.Settings(try await Nginx.shared.value.endpoint("dav")))
    },
    EngineFixture(name: "blobcache-serve", missing: nil) {
      try HTTPEngine(HTTPEngine.Settings(try await BlobCacheServe.shared.value.endpoint))
    },
    EngineFixture(name: "Redis", missing: ValkeyProgram.redis.missing) {
      try ValkeyEngine(try await ValkeyNode.redis.value.settings)
    },
    EngineFixture(name: "Redis cluster", missing: ValkeyProgram.redis.missing) {
      try ValkeyEngine(try await ValkeyCluster.shared.value.settings)
    },
    EngineFixture(name: "Valkey", missing: ValkeyProgram.valkey.missing) {
      try ValkeyEngine(try await ValkeyNode.valkey.value.settings)
    },
    EngineFixture(name: "OpenStack Swift", missing: OpenStackSwift.missing, decidesRaces: false) {
      try S3Engine(try await OpenStackSwift.shared.value.settings())
    },
  ]
}

/// A server, and an engine that connects to it through another port of 127.0.0.1.
struct ProxiedEngine: Sendable, CustomTestStringConvertible {
  let testDescription: String
  /// The server's own port.
  let server: @Sendable () async throws -> Int
  let engine: @Sendable (_ port: Int) async throws -> any RemoteEngine

  static let available: [ProxiedEngine] =
    [
      ProxiedEngine(testDescription: "blobcache-serve") {
        try await BlobCacheServe.shared.value.endpoint.port
      } engine: { port in
        try HTTPEngine(HTTPEngine.Settings(try HTTPEndpoint("http://127.0.0.1:\(port)/v1/blobs")))
      }
    ]
    + (SeaweedFS.isThere
      ? [
        ProxiedEngine(testDescription: "SeaweedFS") {
          try await SeaweedFS.shared.value.port
        } engine: { port in
          var settings = try await SeaweedFS.shared.value.settings()
          settings.endpoint = try HTTPEndpoint("http://127.0.0.1:\(port)")
          return try S3Engine(settings)
        }
      ] : [])
    + (ValkeyProgram.redis.missing == nil
      ? [
        ProxiedEngine(testDescription: "Redis") {
          try await ValkeyNode.redis.value.address.port
        } engine: { port in
          var settings = try await ValkeyNode.redis.value.settings
          settings.servers = [ValkeyAddress("127.0.0.1", port: port)]
          return try ValkeyEngine(settings)
        }
      ] : [])
}

extension RemoteEngine {
  /// Returns all bytes of an object, or `nil` if it does not exist.
  func bytes(of name: RemoteName) async throws -> Data? {
    guard let object = try await get(name) else { return nil }
    var bytes = Data()
    for try await piece in object.pieces { bytes.append(piece) }
    if let count = object.byteCount { #expect(count == Int64(bytes.count)) }
    return bytes
  }

  /// Returns all names with a prefix.
  func names(_ prefix: RemoteName) async throws -> [String] {
    var names: [String] = []
    var next: String?
    repeat {
      let page = try await list(prefix, page: next)
      names += page.names.map(\.string)
      next = page.next
    } while next != nil
    return names
  }
}
