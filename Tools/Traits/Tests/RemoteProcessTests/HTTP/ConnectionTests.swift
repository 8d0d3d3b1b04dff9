import BlobCacheRemote
import Foundation
import Testing

@testable import BlobCacheRemote

@Suite(.timeLimit(.minutes(5))) struct ConnectionTests {
  /// R10: a connection costs more than a small object, so sequential requests share one regardless of their
  /// responses.
  @Test(arguments: ProxiedEngine.available) func R10_oneConnectionServesAll(_ fixture: ProxiedEngine) async throws {
    let proxy = try FaultProxy(to: try await fixture.server())
    let engine = try await fixture.engine(proxy.port)
    let start = ContinuousClock.now
    try await use(engine)
    let closings = Int(start.duration(to: .now) / .seconds(10))
    await engine.close()
    // 35 requests share these connections. A connection is closed after ten idle seconds, which pass on a busy machine.
    #expect((1...5 + closings).contains(proxy.connectionCount))
  }

  /// R11: a server that disconnects during an upload does not end the process by SIGPIPE.
  @Test(arguments: ["http://HOST/v1/blobs", "s3://cache/x?endpoint=http://HOST", "valkey://HOST"], [true, false])
  func R11_aConnectionThatBreaksKillsNoProcess(url: String, byReset: Bool) async throws {
    let server = try Listener { connection in
      let first = connection.read()
      if first.starts(with: "*".utf8) {
        // Valkey's first command gets a reply, so that the engine sends the blob.
        connection.write("%0\r\n".utf8)
        _ = connection.read()
      }
      if byReset { connection.reset() } else { connection.close() }
    }
    let file = FileManager.default.temporaryDirectory.appending(path: "broken-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: file) }
    try Records.bytes(6_000_000, seed: 1).write(to: file)
    // Tests ignore the signal, and child processes would inherit that.
    let command = ["/usr/bin/env", "--default-signal=PIPE", RemoteProgram.path, "put"]
    let host = "127.0.0.1:\(server.port)"
    let run = try await Programs.run(
      command + [url.replacing("HOST", with: host), "key", file.path],
      environment: ["AWS_ACCESS_KEY_ID": "AKTEST", "AWS_SECRET_ACCESS_KEY": "SKTEST"])
    #expect(run.status == 2, "\(run.errors)")
    #expect(run.errors.contains(host), "\(run.errors)")
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

  /// The deinitializer of an engine that was not closed closes its connections.
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
