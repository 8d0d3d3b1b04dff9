import BlobCache
@testable import BlobCacheServer
import Testing

/// The scans of the viewer's pages.
@Suite struct SurveyTests {
  /// A scan that ended with a failure has not seen all records, whichever page asks for its result.
  @Test func aScanThatFailedIsNotWhole() async throws {
    let server = try TestServer()
    _ = try await server.put("a", "hello")
    let surveys = Surveys()
    let whole = try await ended(surveys, server)
    #expect(whole.isWhole && whole.failure == nil)
    #expect(surveys.known(.init())?.isWhole == true)
    try await server.cache.close()
    let failed = try await ended(surveys, server)
    #expect(!failed.isWhole && failed.failure != nil)
    let known = try #require(surveys.known(.init()))
    #expect(!known.isWhole && known.failure == failed.failure)
  }

  private func ended(_ surveys: Surveys, _ server: TestServer) async throws -> Surveys.Progress {
    var progress = try await surveys.progress(of: .init(), in: server.cache, anew: true)
    while !progress.isWhole, progress.failure == nil {
      progress = try await surveys.progress(of: .init(), in: server.cache)
    }
    return progress
  }
}
