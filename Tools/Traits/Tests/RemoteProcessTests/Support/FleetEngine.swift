import BlobCacheRemote
import Foundation
import Synchronization

/// The dedicated engine of a fleet, which can be suspended and killed.
final class FleetEngine: Sendable {
  enum Kind: String, Sendable {
    case serve = "blobcache-serve"
    case redis = "Redis"
    case seaweed = "SeaweedFS"

    static let available: [Kind] =
      [serve] + (ValkeyProgram.redis.missing == nil ? [redis] : []) + (SeaweedFS.isThere ? [seaweed] : [])
  }

  private enum Server {
    case serve(FleetNode)
    case redis(ValkeyNode)
    case seaweed(SeaweedFS)

    var process: EngineServer {
      switch self {
      case .serve(let node): node.server
      case .redis(let node): node.server
      case .seaweed(let store): store.server
      }
    }
  }

  let port: Int
  private let kind: Kind
  private let directory: URL
  private let server: Mutex<Server>

  /// - Parameter directory: The directory of `blobcache-serve`.
  init(_ kind: Kind, at directory: URL) async throws {
    (self.kind, self.directory) = (kind, directory)
    let begun: Server
    switch kind {
    case .serve:
      let node = try await FleetNode(remote: nil, cache: directory)
      port = node.port
      begun = .serve(node)
    case .redis:
      let node = try await ValkeyNode(.redis)
      port = node.address.port
      begun = .redis(node)
    case .seaweed:
      let store = try await SeaweedFS()
      port = store.port
      begun = .seaweed(store)
    }
    server = Mutex(begun)
  }

  /// - Parameter port: The port of the server or of a proxy.
  func url(_ port: Int) -> String {
    switch kind {
    case .serve: "http://127.0.0.1:\(port)/v1/blobs?namespace=fleet"
    case .redis: "valkey://127.0.0.1:\(port)?namespace=fleet"
    case .seaweed: "s3://cache/fleet?endpoint=http://127.0.0.1:\(port)"
    }
  }

  func send(_ signal: Int32) { server.withLock { $0 }.process.send(signal) }

  /// A Boolean value that indicates whether objects survive a kill, so that the engine can be restarted.
  var keepsObjects: Bool { kind == .serve }

  /// Kills the engine, and starts it again at the same port.
  func restart() async throws {
    guard keepsObjects else { return }
    send(SIGKILL)
    server.withLock { $0 }.process.kill()
    let node = try await FleetNode(remote: nil, port: port, cache: directory)
    server.withLock { $0 = .serve(node) }
  }
}
