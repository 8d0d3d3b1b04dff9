import BlobCache
import Foundation
import Testing

@testable import BlobCacheRemote

/// Servers that refuse the checksum of an upload.
@Suite(.timeLimit(.minutes(5))) struct ChecksumTests {
  private static let field = "x-amz-checksum-crc32: "

  /// A server that refuses uploads with a checksum, and otherwise has no objects.
  private func server(_ status: String, _ code: String) throws -> ScriptedServer {
    try ScriptedServer { head in
      switch true {
      case head.hasPrefix("PUT"):
        head.lowercased().contains(Self.field)
          ? ScriptedServer.answer(status, "<Error><Code>\(code)</Code></Error>") : ScriptedServer.answer("200 OK")
      case head.contains("list-type"):
        ScriptedServer.answer("200 OK", "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
      case head.hasPrefix("DELETE"): ScriptedServer.answer("204 No Content")
      default: ScriptedServer.answer("206 Partial Content", String(decoding: ProbeObject.bytes, as: UTF8.self))
      }
    }
  }

  private func engine(_ server: ScriptedServer, sendsChecksums: Bool = true) throws -> S3Engine {
    var settings = S3Engine.Settings(bucket: "cache", credentials: .fixed(accessKey: "AK", secretKey: "SK"))
    settings.endpoint = try HTTPEndpoint("http://127.0.0.1:\(server.port)")
    settings.sendsChecksums = sendsChecksums
    return try S3Engine(settings)
  }

  /// The check sends what a store sends, and names the option without which each store would be dropped.
  @Test(arguments: [("501 Not Implemented", "NotImplemented"), ("400 Bad Request", "InvalidRequest")])
  func aCheckNamesTheOption(status: String, code: String) async throws {
    let server = try server(status, code)
    let engine = try engine(server)
    let error = await #expect(throws: RemoteError.self) { try await engine.capabilities(under: RemoteName("a/")) }
    #expect(error?.kind == .unsupported && error?.message.contains("set checksums=false") == true)
    // The object of the check is removed.
    #expect(server.requests.last?.hasPrefix("DELETE") == true)
    await engine.close()
  }

  @Test func theOptionLeavesThemOut() async throws {
    let server = try server("501 Not Implemented", "NotImplemented")
    let engine = try engine(server, sendsChecksums: false)
    #expect(try await engine.capabilities(under: RemoteName("a/")).removes)
    let records = try Records()
    try await engine.put(try records.inMemory(Data("x".utf8)), as: RemoteName("a/b"))
    try await engine.put(try await records.inFile(Records.bytes(3_000_000, seed: 4)), as: RemoteName("a/c"))
    #expect(!server.requests.contains { $0.lowercased().contains(Self.field) })
    await engine.close()
  }

  /// A server that refuses each upload is not helped by the option.
  @Test func anotherRefusalNamesNoOption() async throws {
    let server = try ScriptedServer { head in
      head.hasPrefix("PUT")
        ? ScriptedServer.answer("500 Internal Server Error")
        : ScriptedServer.answer("200 OK", "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
    }
    let engine = try engine(server)
    let error = await #expect(throws: RemoteError.self) { try await engine.capabilities(under: RemoteName("a/")) }
    #expect(error?.kind == .failed && error?.message.contains("checksums") == false)
    await engine.close()
  }
}
