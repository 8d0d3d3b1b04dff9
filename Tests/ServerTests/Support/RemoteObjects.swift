import BlobCache
import Foundation
import Locks

/// A remote engine in memory that can be made to fail.
final class RemoteObjects: RemoteEngine {
  private struct State {
    var objects: [RemoteName: Data] = [:]
    var failure: RemoteError.Kind?
    var fetched: [RemoteName] = []
  }

  let name = "memory://<b>objects</b>"
  private let state = Lock(State())

  func fail(_ kind: RemoteError.Kind?) { state.withLock { $0.failure = kind } }

  private func use<Answer>(_ body: (inout [RemoteName: Data]) -> Answer) throws -> Answer {
    try state.withLock { state in
      if let failure = state.failure { throw RemoteError(failure, "\(name) was told to fail") }
      return body(&state.objects)
    }
  }

  var names: [String] { state.withLock { $0.objects.keys.map(\.string).sorted() } }

  /// The names of the objects that were requested as a whole.
  var fetched: [RemoteName] { state.withLock { $0.fetched } }

  func get(_ name: RemoteName) async throws -> RemoteObject? {
    state.withLock { $0.fetched.append(name) }
    return try use { $0[name].map { RemoteObject($0) } }
  }

  func head(_ name: RemoteName) async throws -> Data? { try use { $0[name].map { $0.prefix(64) } } }

  func put(_ record: RemoteRecord, as name: RemoteName) async throws {
    let bytes = try await record.collected()
    try use { $0[name] = bytes }
  }

  func remove(_ name: RemoteName) async throws { try use { $0[name] = nil } }

  func list(_ prefix: RemoteName, page: String?) async throws -> RemotePage { RemotePage(names: []) }

  func capabilities(under prefix: RemoteName) async throws -> RemoteCapabilities { RemoteCapabilities() }

  func close() async {}
}

extension RemoteObjects {
  /// The tier of a machine that shares the objects. Its deadlines are long, so that no test fails on a slow machine.
  var tier: RemoteTier {
    var tier = RemoteTier(self, namespace: RemoteNamespace("test"))
    tier.writing = .through
    tier.deadlines.firstByte = .seconds(300)
    tier.deadlines.progress = .seconds(300)
    tier.deadlines.change = .seconds(300)
    return tier
  }
}
