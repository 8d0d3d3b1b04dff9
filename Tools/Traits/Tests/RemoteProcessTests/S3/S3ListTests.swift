import BlobCache
import BlobCacheRemote
import Foundation
import Testing

/// Lists of a server that sends pages without names.
@Suite(.timeLimit(.minutes(5))) struct S3ListTests {
  private let name = RemoteName("tool/v1/a")

  /// Returns an engine, and the server, whose list begins with a number of empty pages.
  private func listing(emptyPages: Int) throws -> (engine: S3Engine, server: ScriptedServer) {
    let pages = Counter()
    let server = try ScriptedServer { [name] _ in
      let number = pages.increment()
      let content =
        number > emptyPages
        ? "<Contents><Key>\(name)</Key></Contents>"
        : "<IsTruncated>true</IsTruncated><NextContinuationToken>\(number)</NextContinuationToken>"
      return ScriptedServer.answer("200 OK", "<ListBucketResult>\(content)</ListBucketResult>")
    }
    var settings = S3Engine.Settings(bucket: "cache", credentials: .fixed(accessKey: "AK", secretKey: "SK"))
    settings.endpoint = try HTTPEndpoint("http://127.0.0.1:\(server.port)")
    return (try S3Engine(settings), server)
  }

  @Test func emptyPagesAreSkipped() async throws {
    let (engine, server) = try listing(emptyPages: 99)
    let page = try await engine.list(RemoteName("tool/"), page: nil)
    #expect(page.names == [name] && page.next == nil)
    #expect(server.requests.count == 100)
    await engine.close()
  }

  /// A tool would otherwise never end.
  @Test func emptyPagesWithoutAnEndAreAnError() async throws {
    let (engine, server) = try listing(emptyPages: .max)
    let error = await #expect(throws: RemoteError.self) { try await engine.list(RemoteName("tool/"), page: nil) }
    #expect(error?.message.contains("100 pages of the list have no name") == true)
    #expect(server.requests.count == 100)
    await engine.close()
  }
}
