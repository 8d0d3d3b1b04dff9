import BlobCacheRemote
import Foundation
import Testing

@testable import BlobCacheRemote

/// An incorrect setting results in one error message that names it, with nginx.
@Suite(.enabled(if: Nginx.isThere, "no nginx; Tools/prerequisites installs it"), .timeLimit(.minutes(5)))
struct HTTPSettingTests {
  private static let name = RemoteName("settings/object")

  private func outcome(
    _ endpoint: HTTPEndpoint, changed change: (inout HTTPEngine.Settings) -> Void = { _ in },
    _ request: (HTTPEngine) async throws -> Void
  ) async throws -> RemoteError? {
    var settings = HTTPEngine.Settings(endpoint)
    change(&settings)
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

  private static func put(_ engine: HTTPEngine) async throws {
    try await engine.put(try Records().inMemory(Data("x".utf8)), as: name)
  }

  @Test func aPasswordIsNeeded() async throws {
    let endpoint = try await Nginx.shared.value.endpoint("closed")
    let none = try await outcome(endpoint, Self.put)
    #expect(none?.kind == .refused)
    #expect(none?.message.contains("look at token-file or password-file, which is not given") == true)
    let wrong = try await outcome(
      endpoint, changed: { $0.credential = .basic(user: "user", password: .fixed("wrong")) }, Self.put)
    #expect(wrong?.kind == .refused)
    #expect(wrong?.message.contains("the user, and password-file") == true)
    #expect(wrong?.message.contains("wrong") == false)
    let right = { (settings: inout HTTPEngine.Settings) in
      settings.credential = .basic(user: "user", password: .fixed("password"))
    }
    #expect(try await outcome(endpoint, changed: right) { _ = try await $0.get(Self.name) } == nil)
    let missing = try await outcome(endpoint, changed: { $0.credential = .bearer(.file("/none/token")) }, Self.put)
    #expect(missing?.kind == .refused)
    #expect(missing?.message.contains("token-file: /none/token: it cannot be read") == true)
  }

  @Test(
    arguments: [
      ("moved", .refused, "has moved to https://127.0.0.1/elsewhere/; set endpoint to that"),
      ("busy", .throttled(.seconds(7)), "asks for a pause"), ("full", .failed, "disk is full"),
      ("flat", .failed, "create_full_put_path on (capability)"), ("none", .unsupported, "lacks this capability"),
    ] as [(String, RemoteError.Kind, String)])
  func whatTheServerAnswers(path: String, kind: RemoteError.Kind, text: String) async throws {
    let found = try await outcome(try await Nginx.shared.value.endpoint(path), Self.put)
    #expect(found?.kind == kind, "\(String(describing: found))")
    #expect(found?.message.contains(text) == true, "\(String(describing: found))")
  }

  @Test func nothingThatIsTooLarge() async throws {
    let found = try await outcome(try await Nginx.shared.value.endpoint("small")) { engine in
      try await engine.put(try await Records().inFile(Records.bytes(8_000_000, seed: 1)), as: Self.name)
    }
    #expect(found?.kind == .unsupported, "\(String(describing: found))")
    #expect(found?.message.contains("lower the largest payload") == true, "\(String(describing: found))")
  }

  @Test func whatSpeaksNoHTTP() async throws {
    let listener = try Listener { connection in
      connection.write(Data("220 mail.example ESMTP\r\n".utf8))
      connection.close()
    }
    let found = try await outcome(try HTTPEndpoint("http://127.0.0.1:\(listener.port)"), Self.put)
    #expect(found?.kind == .failed || found?.kind == .unreachable, "\(String(describing: found))")
  }

  @Test func clientsShowTheirCertificates() async throws {
    let certificates = try await Certificates()
    let server = try await Nginx(certificates)
    let endpoint = try HTTPEndpoint("https://127.0.0.1:\(server.port)/dav")
    let client = TransportSecurity(
      authority: FilePath(certificates.path("ca.pem")), certificate: FilePath(certificates.path("client.pem")),
      key: FilePath(certificates.path("client.key")))
    #expect(try await outcome(endpoint, changed: { $0.security = client }, Self.put) == nil)
    var anonymous = client
    (anonymous.certificate, anonymous.key) = (nil, nil)
    let unknown = try await outcome(endpoint, changed: { [anonymous] in $0.security = anonymous }, Self.put)
    #expect(unknown?.kind == .refused, "\(String(describing: unknown))")
    #expect(unknown?.message.contains("set cert and key") == true)
    let other = try await Certificates()
    var distrustful = client
    distrustful.authority = FilePath(other.path("ca.pem"))
    let untrusted = try await outcome(endpoint, changed: { [distrustful] in $0.security = distrustful }, Self.put)
    #expect(untrusted?.kind == .refused)
    #expect(untrusted?.message.contains("set ca to the file of who signed it") == true)
    // The certificate is for 127.0.0.1 and localhost.
    let elsewhere = try HTTPEndpoint("https://127.0.0.2:\(server.port)/dav")
    let misnamed = try await outcome(elsewhere, changed: { $0.security = client }, Self.put)
    #expect(misnamed?.kind == .refused, "\(String(describing: misnamed))")
    #expect(misnamed?.message.contains("is for another host than 127.0.0.2; look at the endpoint") == true)
    server.server.kill()
  }

  @Test func aCertificateHasAnEnd() async throws {
    let certificates = try await Certificates()
    let server = try await Nginx(certificates, showing: "expired")
    let client = TransportSecurity(authority: FilePath(certificates.path("ca.pem")))
    let expired = try await outcome(
      try HTTPEndpoint("https://127.0.0.1:\(server.port)/dav"), changed: { $0.security = client }, Self.put)
    #expect(expired?.kind == .refused, "\(String(describing: expired))")
    #expect(expired?.message.contains("not to be trusted: expired") == true, "\(String(describing: expired))")
    server.server.kill()
  }
}
