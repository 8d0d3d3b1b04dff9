import BlobCacheRemote
import Foundation
import Synchronization

/// An engine of one fleet alone, which may be stopped and killed.
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

  /// - Parameter directory: where `blobcache-serve` keeps what it has.
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

  /// - Parameter port: the server's, or that of a proxy.
  func url(_ port: Int) -> String {
    switch kind {
    case .serve: "http://127.0.0.1:\(port)/v1/blobs?namespace=fleet"
    case .redis: "valkey://127.0.0.1:\(port)?namespace=fleet"
    case .seaweed: "s3://cache/fleet?endpoint=http://127.0.0.1:\(port)"
    }
  }

  func send(_ signal: Int32) { server.withLock { $0 }.process.send(signal) }

  /// Whether it has its objects after its death, and so can be begun anew.
  var keepsObjects: Bool { kind == .serve }

  /// Kills it, and starts it where it was.
  func restart() async throws {
    guard keepsObjects else { return }
    send(SIGKILL)
    server.withLock { $0 }.process.kill()
    let node = try await FleetNode(remote: nil, port: port, cache: directory)
    server.withLock { $0 = .serve(node) }
  }
}
