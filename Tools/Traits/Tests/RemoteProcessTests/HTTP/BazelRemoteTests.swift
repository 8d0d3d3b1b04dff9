import BlobCache
import Foundation
import Testing

@testable import BlobCacheRemote

/// The engine with bazel-remote, which accepts only SHA-256 names, and supports neither lists nor removals.
@Suite(.timeLimit(.minutes(5))) struct BazelRemoteTests {
  private static let name = RemoteName("team/v1/al/album%2F1")

  private func with(
    _ server: BazelRemote, path: String = "/ac", _ names: HTTPNames = .sha256,
    _ body: (HTTPEngine) async throws -> Void
  ) async throws {
    var settings = HTTPEngine.Settings(try HTTPEndpoint("http://127.0.0.1:\(server.port)\(path)"))
    settings.names = names
    let engine = try HTTPEngine(settings)
    do {
      try await body(engine)
    } catch {
      await engine.close()
      throw error
    }
    await engine.close()
  }

  private func refusal(_ engine: HTTPEngine) async throws -> RemoteError {
    let record = try Records().inMemory(Data("x".utf8))
    return try #require(await #expect(throws: RemoteError.self) { try await engine.put(record, as: Self.name) })
  }

  @Test(arguments: ["/ac", "/main/ac"]) func recordsComeBackByTheirDigests(path: String) async throws {
    let server = try BazelRemote()
    try await with(server, path: path) { engine in
      let records = try Records()
      var written: [RemoteName: Data?] = [:]
      for (index, text) in ["team/v1/a", "team/v1/b", "other/v1/a", "team/v1/\u{E4}", "team/v1/a\u{308}"].enumerated() {
        let record = try records.inMemory(Records.bytes(index * 40_000, seed: UInt64(index)))
        try await engine.put(record, as: RemoteName(text))
        written[RemoteName(text)] = record.bytes
        #expect(try await engine.head(RemoteName(text)) == record.head)
      }
      for (name, bytes) in written { #expect(try await engine.bytes(of: name) == bytes) }
      #expect(server.names.count == 5)
      #expect(server.names.contains("ac/" + SignatureV4.digest(of: Data("team/v1/a".utf8))))
      #expect(try await engine.get(Self.name) == nil)
      #expect(try await engine.head(Self.name) == nil)
      // The last put wins.
      let other = try records.inMemory(Data("other".utf8))
      try await engine.put(other, as: RemoteName("team/v1/a"))
      #expect(try await engine.bytes(of: RemoteName("team/v1/a")) == other.bytes)
    }
  }

  @Test func aLookTellsWhatItCannot() async throws {
    try await with(BazelRemote()) { engine in
      let found = try await engine.capabilities(under: RemoteName("team/v1/"))
      #expect(!found.removes && !found.lists && !found.expiry && !found.leases && !found.conditionalPut)
      #expect(found.streams)
      #expect(found.notes.contains { $0.contains("DELETE is not allowed") })
      let list = await #expect(throws: RemoteError.self) { try await engine.list(RemoteName("team/"), page: nil) }
      #expect(list?.kind == .unsupported)
      let removal = await #expect(throws: RemoteError.self) { try await engine.remove(Self.name) }
      #expect(removal?.kind == .unsupported)
      #expect(removal?.message.contains("removes nothing") == true, "\(String(describing: removal))")
    }
  }

  /// The error names the required setting of the server or of the engine.
  @Test func settingsAreNamed() async throws {
    try await with(BazelRemote(looksIntoResults: true)) { engine in
      let error = try await refusal(engine)
      #expect(error.kind == .refused && error.message.contains("--disable_http_ac_validation"), "\(error)")
    }
    try await with(BazelRemote(), .path) { engine in
      let error = try await refusal(engine)
      #expect(error.kind == .refused && error.message.contains("set names=sha256"), "\(error)")
    }
  }

  /// The tier reports a removal as dropped. Its machine does not request the key until it is stored again.
  @Test func aRemovalIsToldAsDropped() async throws {
    let server = try BazelRemote()
    let directories = (0..<2).map { _ in
      FileManager.default.temporaryDirectory.appending(path: "bazel-remote-\(UUID().uuidString)")
    }
    defer { for directory in directories { try? FileManager.default.removeItem(at: directory) } }
    let caches = try directories.map { directory in
      let place = try RemoteURL("http://127.0.0.1:\(server.port)/ac?names=sha256&namespace=team")
      var configuration = BlobCache.Configuration()
      configuration.remote = RemoteTier(try place.makeEngine(), namespace: place.namespace)
      configuration.remote?.writing = .through
      configuration.remote?.deadlines.firstByte = .seconds(300)
      configuration.remote?.deadlines.progress = .seconds(300)
      configuration.remote?.deadlines.change = .seconds(300)
      return try BlobCache(directory: FilePath(directory.path), configuration: configuration)
    }
    try await caches[0].store(Data("hello".utf8), for: "key")
    #expect(try await caches[1].load("key")?.payload == Data("hello".utf8))
    let outcome = try await caches[1].removeEverywhere("key")
    #expect(outcome.here == .done && outcome.there == .dropped)
    #expect(try await caches[1].load("key") == nil)
    #expect(caches[1].remoteStatus?.droppedRemovals == 1)
    try await caches[1].store(Data("again".utf8), for: "key")
    try await caches[0].remove("key")
    try await caches[1].remove("key")
    #expect(server.names.count == 1)
    for cache in caches { try await cache.close() }
  }

  @Test func theToolTellsIt() async throws {
    let server = try BazelRemote()
    let url = "http://127.0.0.1:\(server.port)/ac?names=sha256&namespace=tool"
    let check = try await RemoteProgram.run("check", url)
    #expect(check.status == 0, "\(check.errors)")
    let text = String(decoding: check.output, as: UTF8.self)
    #expect(text.contains("removes objects                 no\n") && text.contains("DELETE is not allowed"), "\(text)")
    #expect(try await RemoteProgram.run("put", url, "key", "/dev/null").status == 0)
    let got = try await RemoteProgram.run("get", url, "key")
    #expect(got.status == 0 && got.output.isEmpty)
    let removed = try await RemoteProgram.run("remove", url, "key")
    #expect(removed.status == 2 && removed.errors.contains("removes nothing"), "\(removed.errors)")
  }
}
