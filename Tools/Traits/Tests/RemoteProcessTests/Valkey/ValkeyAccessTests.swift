import Foundation
import SystemPackage
import Testing

@testable import BlobCacheRemote

/// Users, rights, certificates, and the error messages for incorrect settings.
@Suite(.timeLimit(.minutes(5)), .enabled(if: ValkeyProgram.redis.missing == nil, "no redis-server"))
struct ValkeyAccessTests {
  private static let guarded = Task {
    try await ValkeyNode(
      .redis, ["--databases", "4"],
      users: [
        "user default off", "user ann on >annpass ~team/* &* +@all", "user bob on >bobpass ~team/* +get +getrange",
        // The rights are copied from Spec/Remote.md.
        "user eve on >evepass ~team/* &blobcache/team/* +getrange +strlen +set +unlink +scan +cluster|slots +get "
          + "+pexpire +eval +publish +subscribe",
      ])
  }
  private let records: Records
  private let name = RemoteName("team/v1/\(UUID().uuidString)")

  init() throws { records = try Records() }

  private func engine(_ change: (inout ValkeyEngine.Settings) throws -> Void) async throws -> ValkeyEngine {
    var settings = try await Self.guarded.value.settings
    try change(&settings)
    return try ValkeyEngine(settings)
  }

  private func error(_ engine: ValkeyEngine, _ body: (ValkeyEngine) async throws -> Void) async -> RemoteError? {
    do {
      try await body(engine)
      await engine.close()
      return nil
    } catch {
      await engine.close()
      return error as? RemoteError
    }
  }

  @Test func aUserWithRightsIsLetIn() async throws {
    let file = FileManager.default.temporaryDirectory.appending(path: "password-\(UUID().uuidString)")
    try Data("annpass\n".utf8).write(to: file)
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
    defer { try? FileManager.default.removeItem(at: file) }
    for password in [Secret.fixed("annpass"), .file(FilePath(file.path))] {
      let engine = try await engine { ($0.user, $0.password, $0.database) = ("ann", password, 3) }
      let record = try records.inMemory(Data("a".utf8))
      try await engine.put(record, as: name)
      #expect(try await engine.bytes(of: name) == record.bytes)
      try await engine.remove(name)
      await engine.close()
    }
  }

  @Test func wrongPasswordsAreRefused() async throws {
    let wrong = await error(try await engine { ($0.user, $0.password) = ("ann", .fixed("hunter2")) }) {
      _ = try await $0.get(name)
    }
    #expect(wrong?.kind == .refused)
    #expect(wrong?.message.contains("the user ann") == true)
    #expect(wrong?.message.contains("hunter2") == false)
    let none = await error(try await engine { _ in }) { _ = try await $0.get(name) }
    #expect(none?.kind == .refused)
    #expect(none?.message.contains("set user and password") == true)
    let missing = await error(try await engine { $0.password = .file("/nowhere") }) { _ = try await $0.get(name) }
    #expect(missing?.kind == .refused)
    #expect(missing?.message.contains("password") == true)
  }

  /// The server's default user has no password, so a configured password is wrong.
  @Test func aPasswordThatNobodyAskedForIsRefused() async throws {
    var settings = try await ValkeyNode.redis.value.settings
    (settings.user, settings.password) = ("carl", .fixed("hunter2"))
    let failure = await error(try ValkeyEngine(settings)) { _ = try await $0.get(name) }
    #expect(failure?.kind == .refused)
    #expect(failure?.message.contains("carl") == true)
    #expect(failure?.message.contains("hunter2") == false)
  }

  @Test func missingRightsAreNamed() async throws {
    let record = try records.inMemory(Data("a".utf8))
    let bob = try await engine { ($0.user, $0.password) = ("bob", .fixed("bobpass")) }
    #expect(try await bob.get(name) == nil)
    let failure = await error(bob) { try await $0.put(record, as: name) }
    #expect(failure?.kind == .refused)
    #expect(failure?.message.contains("the user bob") == true)
    #expect(failure?.message.contains("ACL SETUSER") == true)
    let ann = try await engine { ($0.user, $0.password) = ("ann", .fixed("annpass")) }
    let outside = await error(ann) { _ = try await $0.get(RemoteName("other/v1/a")) }
    #expect(outside?.kind == .forbidden)
  }

  @Test func theRightsOfTheSpecificationAreEnough() async throws {
    let eve = try await engine { ($0.user, $0.password) = ("eve", .fixed("evepass")) }
    let record = try records.inMemory(Records.bytes(2 << 20, seed: 11))
    try await eve.put(record, as: name)
    #expect(try await eve.bytes(of: name) == record.bytes)
    #expect(try await eve.names(name) == [name.string])
    for holder in ["me", "other"] {
      for _ in 0..<2 { #expect(try await eve.acquireLease(name, as: holder, for: .seconds(600))) }
      try await eve.releaseLease(name, as: holder)
    }
    try await eve.remove(name)
    let texts = try await eve.announcements(on: "blobcache/team/v1")
    try await eve.announce("text", on: "blobcache/team/v1")
    for try await text in texts {
      #expect(text == "text")
      break
    }
    let found = try await eve.capabilities(under: RemoteName("team/v1/"))
    #expect(found.conditionalPut && found.leases && found.lists && found.announcements)
    await eve.close()
  }

  @Test func aLookTellsOfMissingRights() async throws {
    let bob = try await engine { ($0.user, $0.password) = ("bob", .fixed("bobpass")) }
    let found = try await bob.capabilities(under: RemoteName("team/"))
    #expect(!found.conditionalPut && !found.leases && !found.lists && !found.announcements && !found.expiry)
    #expect(found.notes.filter { $0.contains("the user bob") }.count >= 4)
    await bob.close()
  }

  @Test func aDatabaseBeyondIsRefused() async throws {
    let failure = await error(
      try await engine { ($0.user, $0.password, $0.database) = ("ann", .fixed("annpass"), 4) }
    ) { _ = try await $0.get(name) }
    #expect(failure?.kind == .refused)
    #expect(failure?.message.contains("no database 4") == true)
    var settings = try await ValkeyCluster.shared.value.settings
    settings.database = 1
    let cluster = await error(try ValkeyEngine(settings)) { _ = try await $0.get(name) }
    #expect(cluster?.kind == .refused)
    #expect(cluster?.message.contains("no database 1") == true)
  }

  @Test func bytesAreEncrypted() async throws {
    let certificates = try await Certificates()
    let node = try await ValkeyNode(.redis, certificates: certificates)
    func settings(_ security: TransportSecurity?) -> ValkeyEngine.Settings {
      var settings = node.settings
      settings.security = security
      return settings
    }
    let authority = FilePath(certificates.path("ca.pem"))
    let known = TransportSecurity(
      authority: authority, certificate: FilePath(certificates.path("client.pem")),
      key: FilePath(certificates.path("client.key")))
    let engine = try ValkeyEngine(settings(known))
    let record = try records.inMemory(Records.bytes(3 << 20, seed: 5))
    try await engine.put(record, as: name)
    #expect(try await engine.bytes(of: name) == record.bytes)
    await engine.close()

    // The certificate names localhost and 127.0.0.1. A configured name takes precedence over the host.
    var elsewhere = settings(known)
    elsewhere.servers = [ValkeyAddress("127.0.0.2", port: node.address.port)]
    var named = elsewhere
    named.serverName = "localhost"
    let other = try ValkeyEngine(named)
    #expect(try await other.head(name) == record.head)
    await other.close()

    // An unknown authority, a missing client certificate, and an address and a name that are not in the certificate.
    var stranger = known
    let others = try await Certificates()
    stranger.authority = FilePath(others.path("ca.pem"))
    named.serverName = "elsewhere.example"
    for wrong in [settings(stranger), settings(TransportSecurity(authority: authority)), elsewhere, named] {
      let failure = await error(try ValkeyEngine(wrong)) { _ = try await $0.get(name) }
      #expect(failure?.kind == .refused, "\(wrong)")
      #expect(failure?.message.contains("security") == true, "\(String(describing: failure))")
    }
    let plain = await error(try ValkeyEngine(settings(nil))) { _ = try await $0.get(name) }
    #expect(plain != nil)
    #expect(plain?.message.contains("security") == true, "\(String(describing: plain))")
    // The port of a server without TLS.
    var toPlain = try await ValkeyNode.redis.value.settings
    (toPlain.security, toPlain.connectTime) = (known, .milliseconds(500))
    let failure = await error(try ValkeyEngine(toPlain)) { _ = try await $0.get(name) }
    #expect(failure != nil)
    #expect(failure?.message.contains("set ") == true, "\(String(describing: failure))")
  }

  @Test func whatCannotBeReachedNamesTheServer() async throws {
    // No test listens at this port.
    let port = 1
    var settings = ValkeyEngine.Settings([ValkeyAddress("127.0.0.1", port: port)])
    settings.connectTime = .seconds(60)
    let refused = await error(try ValkeyEngine(settings)) {
      _ = try await $0.get(name)
    }
    #expect(refused?.kind == .unreachable)
    #expect(refused?.message.contains("127.0.0.1:\(port)") == true)
    #expect(refused?.message.hasSuffix("cannot be reached; set servers (Connection refused)") == true)
    var unknown = ValkeyEngine.Settings([ValkeyAddress("nowhere.invalid")])
    unknown.allowsPlainText = true
    let failure = await error(try ValkeyEngine(unknown)) { _ = try await $0.get(name) }
    // Some networks respond late to a lookup of an unknown name.
    #expect(failure?.kind == .unreachable || failure?.kind == .timedOut)
  }

  /// nginx responds without RESP.
  @Test(.enabled(if: Nginx.isThere, "no nginx")) func anotherProtocolIsTold() async throws {
    let port = try await Nginx.shared.value.port
    var settings = ValkeyEngine.Settings([ValkeyAddress("127.0.0.1", port: port)])
    settings.connectTime = .seconds(60)
    let failure = await error(try ValkeyEngine(settings)) {
      _ = try await $0.get(name)
    }
    #expect(failure?.kind == .refused)
    #expect(failure?.message.contains("does not speak Valkey's protocol") == true)
  }
}
