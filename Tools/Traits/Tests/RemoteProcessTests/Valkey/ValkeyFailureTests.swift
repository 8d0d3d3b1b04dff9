import NIOSSL
import Testing

@testable import BlobCacheRemote

/// The contents of errors: the kind, the setting to change, and no secret.
@Suite struct ValkeyFailureTests {
  private let failure = ValkeyFailure(engine: "valkey://h:1", user: "ann", database: 7, isEncrypted: false)

  @Test(arguments: [
    ("NOAUTH Authentication required.", RemoteError.Kind.refused, "set user and password"),
    ("DENIED Redis is running in protected mode because protected mode is enabled", .refused, "protected-mode"),
    ("WRONGPASS invalid username-password pair or user is disabled.", .refused, "the user ann"),
    ("NOPERM No permissions to access a key", .forbidden, "ACL SETUSER"),
    (
      "NOPERM this user has no permissions to access one of the keys used as arguments", .forbidden, "ACL SETUSER"
    ),
    ("NOPERM User ann has no permissions to run the 'set' command", .refused, "ACL SETUSER"),
    (
      "ERR AUTH <password> called without any password configured for the default user.", .refused,
      "set user and password"
    ),
    ("ERR DB index is out of range", .refused, "no database 7"),
    ("ERR SELECT is not allowed in cluster mode", .refused, "no database 7"),
    ("WRONGTYPE Operation against a key holding the wrong kind of value", .damaged, "another program"),
    ("LOADING Redis is loading the dataset in memory", .throttled(nil), "pause"),
    ("BUSY Redis is busy running a script.", .throttled(nil), "pause"),
    ("TRYAGAIN Multiple keys request during rehashing of slot", .throttled(nil), "pause"),
    ("MASTERDOWN Link with MASTER is down", .throttled(nil), "pause"),
    ("ERR max number of clients reached", .throttled(nil), "connections"),
    ("CLUSTERDOWN The cluster is down", .failed, "CLUSTER INFO"),
    ("READONLY You can't write against a read only replica.", .failed, "set servers"),
    ("OOM command not allowed when used memory > 'maxmemory'.", .failed, "maxmemory-policy"),
    ("ERR unknown command 'DELIFEQ', with args beginning with: 'key' 'secret'", .unsupported, "DELIFEQ"),
    ("ERR syntax error", .unsupported, "syntax"), ("ERR something else", .failed, "something else"),
    ("", .failed, "h:1"),
  ])
  func eachReplyHasAKind(_ text: String, _ kind: RemoteError.Kind, _ words: String) {
    let error = failure.error(reply: text, from: ValkeyAddress("h", port: 1))
    #expect(error.kind == kind)
    #expect(error.message.hasPrefix("valkey://h:1: h:1 "))
    #expect(error.message.contains(words), "\(error.message)")
    #expect(!error.message.contains("secret"))
  }

  /// The request is retried soon if the server restarts, but not if its certificates are refused.
  @Test func anEndOfTLSIsNoRefusal() {
    let ends = [NIOSSLError.uncleanShutdown, .handshakeFailed(.sslError([.eofDuringHandshake]))]
    for (error, kind) in ends.map({ ($0, RemoteError.Kind.unreachable) }) + [(.noCertificateToValidate, .refused)] {
      let found = failure.error(error, at: ValkeyAddress("h", port: 1), isNew: true) as? RemoteError
      #expect(found?.kind == kind)
    }
    let full = RESPErrorReply(text: "ERR max number of clients reached")
    let found = failure.error(full, at: ValkeyAddress("h", port: 1), isNew: true) as? RemoteError
    #expect(found?.kind == .throttled(nil))
  }

  @Test func settingsThatCannotBeAreNamed() {
    func setting(_ change: (inout ValkeyEngine.Settings) -> Void) -> String? {
      var settings = ValkeyEngine.Settings([ValkeyAddress("localhost")])
      change(&settings)
      do throws(RemoteSettingError) {
        _ = try ValkeyEngine(settings)
        return nil
      } catch {
        return error.setting
      }
    }
    #expect(setting { _ in } == nil)
    #expect(setting { $0.servers = [] } == "servers")
    #expect(setting { $0.servers = [ValkeyAddress("")] } == "servers")
    #expect(setting { $0.servers = [ValkeyAddress("localhost", port: 0)] } == "servers")
    #expect(setting { $0.servers = [ValkeyAddress("10.0.0.1")] } == "servers")
    #expect(setting { $0.servers = [ValkeyAddress("127.evil.example")] } == "servers")
    #expect(setting { ($0.servers, $0.allowsPlainText) = ([ValkeyAddress("10.0.0.1")], true) } == nil)
    #expect(setting { ($0.servers, $0.security) = ([ValkeyAddress("10.0.0.1")], TransportSecurity()) } == nil)
    #expect(setting { $0.database = -1 } == "database")
    #expect(setting { $0.user = "ann" } == "password")
    #expect(setting { ($0.user, $0.password) = ("ann", .fixed("p")) } == nil)
    #expect(setting { $0.connections = 0 } == "connections")
    #expect(setting { $0.largestObject = 63 } == "largestObject")
    #expect(setting { $0.largestObject = (512 << 20) + 1 } == "largestObject")
    #expect(setting { $0.connectTime = .zero } == "connectTime")
    #expect(setting { $0.security = TransportSecurity(authority: "/none") } != nil)
  }

  @Test func namesTellNoSecret() throws {
    var settings = ValkeyEngine.Settings([ValkeyAddress("localhost"), ValkeyAddress("::1", port: 1)])
    (settings.user, settings.password, settings.database) = ("ann", .fixed("hunter2"), 3)
    #expect(try ValkeyEngine(settings).name == "valkey://localhost:6379,[::1]:1/3")
    settings.security = TransportSecurity()
    #expect(try ValkeyEngine(settings).name.hasPrefix("valkeys://"))
    var text = "\(settings)"
    dump(settings, to: &text)
    #expect(!text.contains("hunter2"))
  }

  @Test func patternsMatchTheirPrefixAlone() {
    #expect(ValkeyEngine.pattern(for: "a/b") == "a/b*")
    #expect(ValkeyEngine.pattern(for: #"[*?]\^-"#) == #"\[\*\?\]\\\^\-*"#)
  }
}
