import BlobCacheRemote
import Foundation
import Testing

@testable import BlobCacheRemote

/// What becomes of connections.
@Suite(.timeLimit(.minutes(5))) struct ConnectionTests {
  /// Requests one after another share one, whatever they are answered.
  @Test func oneConnectionServesAll() async throws {
    let endpoint = try await BlobCacheServe.shared.value.endpoint
    let proxy = try FaultProxy(to: endpoint.port)
    let engine = try HTTPEngine(HTTPEngine.Settings(try HTTPEndpoint("http://127.0.0.1:\(proxy.port)/v1/blobs")))
    try await use(engine)
    await engine.close()
    #expect(proxy.connectionCount == 1)
  }

  @Test(
    .enabled(if: SeaweedFS.isThere, "no weed; Tools/prerequisites installs it"),
    .enabled(if: LongRun.isWanted, "Tools/test --long remote"))
  func oneConnectionServesAllOfS3() async throws {
    let proxy = try FaultProxy(to: try await SeaweedFS.shared.value.port)
    var settings = try await SeaweedFS.shared.value.settings()
    settings.endpoint = try HTTPEndpoint("http://127.0.0.1:\(proxy.port)")
    let engine = try S3Engine(settings)
    try await use(engine)
    await engine.close()
    #expect(proxy.connectionCount == 1)
  }

  private func use(_ engine: any RemoteEngine) async throws {
    let name = RemoteName("connections/\(UUID().uuidString)")
    let record = try Records().inMemory(Records.bytes(100_000, seed: 1))
    for _ in 0..<5 {
      try await engine.put(record, as: name)
      #expect(try await engine.head(name) == record.head)
      #expect(try await engine.bytes(of: name) == record.bytes)
      #expect(try await engine.names(name) == [name.string])
      try await engine.remove(name)
      #expect(try await engine.get(name) == nil)
      #expect(try await engine.head(name) == nil)
    }
  }

  /// An engine that is let go without its end takes its connections with it.
  @Test func anEngineMayBeLetGo() async throws {
    let endpoint = try await BlobCacheServe.shared.value.endpoint
    let proxy = try FaultProxy(to: endpoint.port)
    do {
      let engine = try HTTPEngine(HTTPEngine.Settings(try HTTPEndpoint("http://127.0.0.1:\(proxy.port)/v1/blobs")))
      #expect(try await engine.get(RemoteName("none")) == nil)
    }
    try await eventually("its connection ends") { proxy.openCount == 0 }
  }
}
