import BlobCache
import BlobRecord
import Foundation
import Synchronization
import Testing

@testable import BlobCacheRemote

/// Requests that are sent again with newer credentials, or with the server's time.
@Suite(.timeLimit(.minutes(5))) struct SecondTryTests {
  private static let name = RemoteName("second/object")
  private static let time = UnixTime(seconds: 1_795_722_330)

  /// Credentials whose number grows with each read, up to a last one.
  private final class Rotated: S3CredentialSource {
    private let count = Atomic(0)
    private let last: Int

    init(last: Int) { self.last = last }

    func credentials() -> S3Credentials {
      let number = min(count.add(1, ordering: .relaxed).newValue, last)
      return S3Credentials(accessKey: "AK\(number)", secretKey: "SK", sessionToken: "ST\(number)")
    }
  }

  private final class Revocation: Sendable {
    let isMade = Atomic(false)
  }

  private static func failure(_ status: String, _ code: String, fields: String = "") -> String {
    ScriptedServer.answer(status, "<Error><Code>\(code)</Code></Error>", fields: fields)
  }

  private func s3(_ server: ScriptedServer, _ credentials: any S3CredentialSource) throws -> S3Engine {
    var settings = S3Engine.Settings(bucket: "cache", credentials: credentials)
    settings.endpoint = try HTTPEndpoint("http://127.0.0.1:\(server.port)")
    settings.now = { Self.time }
    return try S3Engine(settings)
  }

  private func field(_ name: String, of head: String) -> String? {
    head.split(separator: "\r\n").first { $0.lowercased().hasPrefix("\(name): ") }.map {
      String($0.dropFirst(name.count + 2))
    }
  }

  @Test(arguments: [
    ("400 Bad Request", "ExpiredToken"), ("403 Forbidden", "ExpiredToken"), ("403 Forbidden", "InvalidAccessKeyId"),
    ("403 Forbidden", "SignatureDoesNotMatch"), ("400 Bad Request", "TokenRefreshRequired"), ("401 Unauthorized", ""),
  ])
  func replacedCredentialsAreUsed(status: String, code: String) async throws {
    let server = try ScriptedServer { head in
      head.contains("Credential=AK1/") ? Self.failure(status, code) : ScriptedServer.answer("200 OK", "bytes")
    }
    let engine = try s3(server, Rotated(last: 2))
    #expect(try await engine.bytes(of: Self.name) == Data("bytes".utf8))
    #expect(server.requests.map { field("x-amz-security-token", of: $0) } == ["ST1", "ST2"])
    // A streamed body is sent again as a whole.
    let records = try Records()
    let other = try s3(server, Rotated(last: 2))
    try await other.put(try await records.inFile(Records.bytes(3_000_000, seed: 4)), as: Self.name)
    #expect(server.requests.count == 4)
    for engine in [engine, other] { await engine.close() }
  }

  /// The same credentials are not tried again, and newer ones once.
  @Test(arguments: [(1, 1), (5, 2)]) func aRefusalIsToldAfterTheSecond(last: Int, requests: Int) async throws {
    let server = try ScriptedServer { _ in Self.failure("400 Bad Request", "ExpiredToken") }
    let engine = try s3(server, Rotated(last: last))
    let error = await #expect(throws: RemoteError.self) { _ = try await engine.get(Self.name) }
    #expect(error?.kind == .refused && error?.message.contains("session token") == true)
    #expect(server.requests.count == requests)
    await engine.close()
  }

  /// A refusal of one object has nothing to do with the age of the credentials.
  @Test func aForbiddenObjectIsAskedForOnce() async throws {
    let server = try ScriptedServer { _ in Self.failure("403 Forbidden", "AccessDenied") }
    let engine = try s3(server, Rotated(last: 5))
    for _ in 0..<2 {
      let error = await #expect(throws: RemoteError.self) { _ = try await engine.get(Self.name) }
      #expect(error?.kind == .forbidden && error?.message.contains("s3:ListBucket") == true)
    }
    #expect(server.requests.map { field("x-amz-security-token", of: $0) } == ["ST1", "ST1"])
    await engine.close()
  }

  /// A server that refuses the time of a request states its own, by which later requests are signed too.
  @Test func theServersClockIsUsed() async throws {
    // The server's clock is a day ahead.
    let server = try ScriptedServer { head in
      head.lowercased().contains("x-amz-date: 20261127")
        ? ScriptedServer.answer("200 OK", "bytes")
        : Self.failure("403 Forbidden", "RequestTimeTooSkewed", fields: "Date: Fri, 27 Nov 2026 19:45:30 GMT\r\n")
    }
    let engine = try s3(server, Rotated(last: 1))
    for _ in 0..<2 { #expect(try await engine.bytes(of: Self.name) == Data("bytes".utf8)) }
    #expect(
      server.requests.map { field("x-amz-date", of: $0) }
        == ["20261126T194530Z", "20261127T194530Z", "20261127T194530Z"])
    await engine.close()
  }

  /// A server that refuses its own time, or states none, is asked no third time.
  @Test(arguments: [("Date: Fri, 27 Nov 2026 19:45:30 GMT\r\n", 2), ("", 1)])
  func aClockIsCorrectedOnce(date: String, requests: Int) async throws {
    let server = try ScriptedServer { _ in
      Self.failure("403 Forbidden", "RequestTimeTooSkewed", fields: date)
    }
    let engine = try s3(server, Rotated(last: 1))
    let error = await #expect(throws: RemoteError.self) { _ = try await engine.get(Self.name) }
    #expect(error?.kind == .refused && error?.message.contains("set the clock") == true)
    #expect(server.requests.count == requests)
    // The same time is not tried again.
    await #expect(throws: RemoteError.self) { _ = try await engine.get(Self.name) }
    #expect(server.requests.count == requests + 1)
    await engine.close()
  }

  /// The token of an HTTP server is read from its file again.
  @Test(arguments: [(true, 2), (false, 1)]) func aReplacedTokenIsUsed(isReplaced: Bool, requests: Int) async throws {
    let file = FileManager.default.temporaryDirectory.appending(path: "token-\(UUID().uuidString)")
    func write(_ token: String) throws {
      try Data(token.utf8).write(to: file)
      try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
    }
    try write("old")
    let revocation = Revocation()
    let server = try ScriptedServer { head in
      revocation.isMade.load(ordering: .relaxed) && head.contains("Bearer old")
        ? ScriptedServer.answer("401 Unauthorized") : ScriptedServer.answer("200 OK", "bytes")
    }
    var settings = HTTPEngine.Settings(try HTTPEndpoint("http://127.0.0.1:\(server.port)"))
    settings.credential = .bearer(.file(FilePath(file.path)))
    let engine = try HTTPEngine(settings)
    #expect(try await engine.bytes(of: Self.name) == Data("bytes".utf8))
    revocation.isMade.store(true, ordering: .relaxed)
    if isReplaced {
      try write("new")
      #expect(try await engine.bytes(of: Self.name) == Data("bytes".utf8))
    } else {
      let error = await #expect(throws: RemoteError.self) { _ = try await engine.get(Self.name) }
      #expect(error?.kind == .refused)
    }
    #expect(server.requests.count == 1 + requests)
    await engine.close()
    try FileManager.default.removeItem(at: file)
  }
}
