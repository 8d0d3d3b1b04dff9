import BlobCacheRemote
import Foundation
import Testing

@testable import BlobCacheRemote

/// `blobcache serve` as the engine of other machines.
@Suite(.timeLimit(.minutes(5))) struct ServeTests {
  private static let name = RemoteName("serve/object")

  /// The server frees the space of a record a minute after its expiry.
  @Test func objectsEndThere() async throws {
    let engine = try HTTPEngine(HTTPEngine.Settings(try await BlobCacheServe.shared.value.endpoint))
    let record = try Records().inMemory(Data("x".utf8))
    let began = Int64(Date().timeIntervalSince1970)
    try await engine.put(record, as: Self.name)
    let written = Int64(Date().timeIntervalSince1970)
    let answer = try await engine.send("HEAD", Self.name)
    let ttl = try #require(answer.field("X-BlobCache-TTL").flatMap { Int64($0) })
    let rest = record.expiry.seconds - Int64(Date().timeIntervalSince1970) + 60
    #expect((rest...(rest + 600)).contains(ttl))
    #expect(try await engine.capabilities(under: Self.name).expiry)
    let object = try #require(try await engine.get(Self.name))
    let modified = try #require(object.modified).seconds
    #expect((began - 1...written + 1).contains(modified))
    await engine.close()
  }

  /// Tokens determine the rights to read and to write.
  @Test func tokensHaveRights() async throws {
    func line(_ name: String, _ scopes: String) -> String {
      "\(name) sha256:\(SignatureV4.digest(of: Data("blobcache_\(name)".utf8))) \(scopes)\n"
    }
    let tokens = line("writer", "read,write") + line("reader", "read")
    let serve = try await BlobCacheServe(tokens: tokens)
    let record = try Records().inMemory(Data("x".utf8))
    func failure(_ token: String?, _ request: (HTTPEngine) async throws -> Void) async throws -> RemoteError? {
      var settings = HTTPEngine.Settings(serve.endpoint)
      if let token { settings.credential = .bearer(.fixed(token)) }
      let engine = try HTTPEngine(settings)
      var failure: RemoteError?
      do {
        try await request(engine)
      } catch {
        failure = error as? RemoteError
        if failure == nil { Issue.record(error) }
      }
      await engine.close()
      return failure
    }
    #expect(try await failure("blobcache_writer") { try await $0.put(record, as: Self.name) } == nil)
    let read = try await failure("blobcache_reader") { engine in
      let bytes = try await engine.bytes(of: Self.name)
      #expect(bytes == record.bytes)
    }
    #expect(read == nil)
    let reader = try await failure("blobcache_reader") { try await $0.put(record, as: Self.name) }
    #expect(reader?.kind == .forbidden)
    #expect(reader?.message.contains("look at the rights of token-file") == true, "\(String(describing: reader))")
    for token in [nil, "blobcache_another"] as [String?] {
      let unknown = try await failure(token) { _ = try await $0.get(Self.name) }
      #expect(unknown?.kind == .refused, "\(String(describing: unknown))")
      #expect(
        unknown?.message.contains("does not know the caller; look at token-file") == true,
        "\(String(describing: unknown))")
    }
    serve.server.kill()
  }
}
