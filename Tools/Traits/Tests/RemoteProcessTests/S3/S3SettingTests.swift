import BlobCacheRemote
import Foundation
import Testing

@testable import BlobCacheRemote

/// An incorrect setting results in one error message that names it, with a real server.
@Suite(.enabled(if: SeaweedFS.isThere, "no weed; Tools/prerequisites installs it"), .timeLimit(.minutes(5)))
struct S3SettingTests {
  private static let name = RemoteName("settings/object")

  private func failure(
    _ change: (inout S3Engine.Settings) throws -> Void, _ request: (S3Engine) async throws -> Void
  ) async throws -> RemoteError? {
    var settings = try await SeaweedFS.shared.value.settings()
    try change(&settings)
    let engine = try S3Engine(settings)
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

  /// Expects that reads, lists and writes fail with the same error.
  private func expect(
    _ kind: RemoteError.Kind, _ text: String, _ change: (inout S3Engine.Settings) throws -> Void
  ) async throws {
    let record = try Records().inMemory(Data("x".utf8))
    let requests: [(S3Engine) async throws -> Void] = [
      { _ = try await $0.get(Self.name) }, { _ = try await $0.head(Self.name) },
      { try await $0.put(record, as: Self.name) },
      { _ = try await $0.list(RemoteName("settings/"), page: nil) },
      { _ = try await $0.capabilities(under: Self.name) },
    ]
    for request in requests {
      let found = try await failure(change, request)
      #expect(found?.kind == kind, "\(String(describing: found))")
      #expect(found?.message.contains(text) == true, "\(String(describing: found))")
      #expect(found?.message.contains("SKTEST") == false && found?.message.hasPrefix("s3://") == true)
    }
  }

  @Test func anAccessKeyThatIsNotKnown() async throws {
    try await expect(.refused, "does not know the access key AKNONE; look at the credentials") {
      $0.credentials = .fixed(accessKey: "AKNONE", secretKey: "SKTEST")
    }
  }

  @Test func anotherSecret() async throws {
    try await expect(.refused, "look at the secret key of the credentials") {
      $0.credentials = .fixed(accessKey: "AKTEST", secretKey: "another")
    }
  }

  @Test func aBucketThatIsNotThere() async throws {
    try await expect(.refused, "there is no bucket nowhere; look at the bucket's name and at the endpoint") {
      $0.bucket = "nowhere"
    }
  }

  /// The server states its time when it refuses that of a request.
  @Test(arguments: [-3600, 3600] as [Int64]) func aClockThatIsWrongIsCorrected(by seconds: Int64) async throws {
    let wrong = { (settings: inout S3Engine.Settings) in
      settings.now = { UnixTime(seconds: Int64(Date().timeIntervalSince1970) + seconds) }
    }
    let record = try await Records().inFile(Records.bytes(3_000_000, seed: 4))
    let object = RemoteName("settings/clock\(seconds)")
    #expect(try await failure(wrong) { try await $0.put(record, as: object) } == nil)
    let bytes = try await record.collected()
    let read = try await failure(wrong) { engine in
      let found = try await engine.bytes(of: object)
      #expect(found == bytes)
    }
    #expect(read == nil)
    #expect(try await failure(wrong) { _ = try await $0.capabilities(under: object) } == nil)
    #expect(try await failure(wrong) { try await $0.remove(object) } == nil)
  }

  @Test func nothingListens() async throws {
    let port = try EngineServer.freePorts(1)[0]
    try await expect(.unreachable, "no connection to 127.0.0.1:\(port): ") {
      $0.endpoint = try HTTPEndpoint("http://127.0.0.1:\(port)")
    }
  }

  @Test func aHostWithoutAnAddress() async throws {
    try await expect(.unreachable, "the host nowhere.invalid of the endpoint has no address") {
      $0.endpoint = try HTTPEndpoint("https://nowhere.invalid")
    }
  }

  @Test func encryptionThatTheServerDoesNotSpeak() async throws {
    try await expect(.refused, "speaks no TLS; look at the port of the endpoint, or use http") {
      $0.endpoint = try HTTPEndpoint("https://127.0.0.1:\($0.endpoint?.port ?? 0)")
    }
  }

  @Test func noCredentials() async throws {
    try await expect(.refused, "/none/credentials: it cannot be read") {
      $0.credentials = .sharedFile("/none/credentials")
    }
  }

  @Test func credentialsThatMayOnlyRead() async throws {
    let reader = { (settings: inout S3Engine.Settings) in
      settings.credentials = .fixed(accessKey: "AKREADER", secretKey: "SKREADER")
    }
    let record = try Records().inMemory(Data("x".utf8))
    #expect(try await failure(reader) { _ = try await $0.get(RemoteName("settings/none")) } == nil)
    let found = try await failure(reader) { try await $0.put(record, as: Self.name) }
    #expect(found?.kind == .forbidden)
    #expect(
      found?.message.contains("AKREADER has no right to do this; look at its policy for the bucket cache") == true)
  }

  @Test func aNameThatIsTooLong() async throws {
    let record = try Records().inMemory(Data("x".utf8))
    let name = RemoteName("settings/" + String(repeating: "n", count: 600))
    let found = try await failure({ _ in }) { try await $0.put(record, as: name) }
    #expect(found?.kind == .unsupported)
    #expect(found?.message.contains("shorten the namespace or the key") == true)
  }

  /// With TLS the body is not signed, and still arrives unchanged.
  @Test func encryptedRequestsNeedTheAuthority() async throws {
    let certificates = try await Certificates()
    let server = try await SeaweedFS(certificates)
    let engine = try S3Engine(try server.settings(certificates))
    let record = try await Records().inFile(Records.bytes(3_000_000, seed: 9))
    try await engine.put(record, as: Self.name)
    #expect(try await engine.bytes(of: Self.name) == record.collected())
    await engine.close()
    let found = try await failure({ settings in
      settings = try server.settings(certificates)
      settings.security.authority = nil
    }) { _ = try await $0.get(Self.name) }
    #expect(found?.kind == .refused)
    #expect(found?.message.contains("set ca to the file of who signed it") == true, "\(String(describing: found))")
    server.server.kill()
  }
}
