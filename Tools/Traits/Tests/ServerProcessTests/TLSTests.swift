import BlobRecord
import BlobStore
import Foundation
import Testing

/// TLS connections with clients of another library.
@Suite(.serialized, .timeLimit(.minutes(5))) struct TLSTests {
  private let certificates: Certificates

  init() throws { certificates = try Certificates() }

  @Test func requestsAreAnsweredOverTLS() throws {
    let server = try ServerProcess(certificates.options)
    #expect(server.address.hasPrefix("https://127.0.0.1:"))
    let connection = try Connection(port: server.port, trusting: certificates)
    let payload = Data((0..<400_000).map { UInt8(truncatingIfNeeded: $0 >> 8) })
    for status in [201, 204] {
      try connection.send(
        "PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(payload.count)\r\nExpect: 100-continue\r\n\r\n"
      )
      #expect(try connection.answer().status == 100)
      try connection.send(payload)
      #expect(try connection.answer().status == status)
    }
    try connection.send("GET /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\n\r\n")
    #expect(try connection.answer().body == payload)
  }

  @Test func withoutTLSNothingIsAnswered() throws {
    let server = try ServerProcess(certificates.options)
    let connection = try server.connect()
    try connection.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    #expect(throws: Failure.self) { try connection.answer() }
  }

  @Test func aClientsCertificateIsAskedFor() throws {
    let server = try ServerProcess(certificates.options + ["--tls-client-ca", certificates.path("ca.pem")])
    let known = try Connection(port: server.port, trusting: certificates, as: "client")
    try known.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    #expect(try known.answer().status == 200)
    let others = try Certificates()
    for (authority, name) in [(certificates, nil), (others, "client"), (certificates, "expired")]
      as [(Certificates, String?)]
    {
      let stranger = try Connection(port: server.port, trusting: certificates, as: name, of: authority)
      // The client may have exited. Only the missing response is relevant.
      try? stranger.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
      #expect(throws: Failure.self) { try stranger.answer() }
    }
  }

  /// A chain or a file of authorities may contain a retired certificate. The server's own one has to be valid.
  @Test func aRetiredCertificateIsReported() throws {
    let others = try Certificates()
    for name in ["server.pem", "ca.pem"] {
      let file = URL(filePath: certificates.path(name))
      try (Data(contentsOf: file) + Data(contentsOf: URL(filePath: others.path("expired.pem")))).write(to: file)
    }
    let server = try ServerProcess(certificates.options + ["--tls-client-ca", certificates.path("ca.pem")])
    for name in ["server.pem", "ca.pem"] {
      try server.waitForError("\(certificates.path(name)): the certificate has expired")
    }
    let known = try Connection(port: server.port, trusting: certificates, as: "client")
    try known.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    #expect(try known.answer().status == 200)
    server.send(SIGHUP)
    try server.waitForError("were read again")
  }

  /// A slow client receives the complete last response.
  @Test func theLastAnswerComesToItsEnd() throws {
    let server = try ServerProcess(certificates.options)
    let payload = Data((0..<20 << 20).map { UInt8(truncatingIfNeeded: $0 >> 12) })
    try server.store().store(payload, for: "large")
    let connection = try Connection(port: server.port, trusting: certificates)
    try connection.send("GET /v1/blobs/large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    let answer = try connection.answer(pause: 1000)
    #expect(answer.status == 200)
    #expect(answer.body == payload)
    #expect(connection.hasEnded)
  }

  @Test func aServerThatStopsFinishesWhatIsUnderWay() throws {
    let server = try ServerProcess(certificates.options)
    let (idle, busy) = (
      try Connection(port: server.port, trusting: certificates),
      try Connection(port: server.port, trusting: certificates)
    )
    // The TLS client does not report when its connection is established.
    try idle.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    #expect(try idle.answer().status == 200)
    try busy.send("PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\nExpect: 100-continue\r\n\r\n")
    #expect(try busy.answer().status == 100)
    try busy.send("one")
    server.send(SIGTERM)
    #expect(idle.hasEnded)
    try busy.send("two")
    #expect(try busy.answer().status == 201)
    #expect(server.status() == 0)
    #expect(try server.store().load("a")?.payload == Data("onetwo".utf8))
  }

  @Test func certificatesAreReadAgain() throws {
    let server = try ServerProcess(certificates.options)
    let earlier = try Connection(port: server.port, trusting: certificates)
    try earlier.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    #expect(try earlier.answer().status == 200)
    let others = try Certificates()
    try certificates.takeOver(others)
    server.send(SIGHUP)
    try server.waitForError("were read again")
    for count in 1...2 {
      let later = try Connection(port: server.port, trusting: others)
      try later.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
      #expect(try later.answer().status == 200)
      guard count == 1 else { break }
      try Data("no certificate".utf8).write(to: certificates.directory.appending(path: "server.pem"))
      server.send(SIGHUP)
      try server.waitForError("stays as it was: \(certificates.path("server.pem")): it has no certificate")
    }
    // Existing connections stay open.
    try earlier.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    #expect(try earlier.answer().status == 200)
  }

  @Test(
    arguments: [
      (["--tls-certificate", "server.pem"], 64, "belong together"),
      (["--tls-key", "server.key"], 64, "belong together"),
      (["--tls-client-ca", "ca.pem"], 64, "needs --tls-certificate"),
      (["--tls-certificate", "server.pem", "--tls-key", "client.key"], 2, "client.key: it is not the key of"),
      (["--tls-certificate", "missing", "--tls-key", "server.key"], 2, "missing: it cannot be read: No such file"),
      (["--tls-certificate", "server.key", "--tls-key", "server.key"], 2, "server.key: it has no certificate"),
      (["--tls-certificate", "server.pem", "--tls-key", "server.pem"], 2, "server.pem: other users may read it"),
      (["--tls-certificate", "server.pem", "--tls-key", "server.csr"], 2, "server.csr: it has no private key"),
      (
        ["--tls-certificate", "expired.pem", "--tls-key", "expired.key"], 2, "expired.pem: the certificate has expired"
      ),
      (
        ["--tls-certificate", "server.pem", "--tls-key", "server.key", "--tls-client-ca", "server.csr"], 2,
        "server.csr: it has no certificate"
      ),
    ] as [([String], Int32, String)])
  func whatDoesNotFitIsRefused(options: [String], status: Int32, reason: String) throws {
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: certificates.path("server.csr"))
    let options = options.map { $0.hasPrefix("-") ? $0 : certificates.path($0) }
    let start = try run([ServerProcess.executable.path, "/nonexistent/cache", "--listen", "127.0.0.1:0"] + options)
    #expect(start.status == status)
    #expect(start.errors.contains(reason), "\(start.errors)")
  }

  /// Encryption does not restrict changes of blobs, so a server on a network needs further protection.
  @Test func onANetworkChangesNeedMoreThanTLS() throws {
    let start = try run(
      [ServerProcess.executable.path, "/nonexistent/cache", "--listen", "0.0.0.0:0"] + certificates.options)
    #expect(start.status == 64)
    #expect(start.errors.contains("--tokens"))
    let tokens = certificates.path("tokens")
    try Data("anyone - read\n".utf8).write(to: URL(filePath: tokens))
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: tokens)
    for more in [
      ["--insecure"], ["--read-only"], ["--tokens", tokens], ["--tls-client-ca", certificates.path("ca.pem")],
    ] {
      let server = try ServerProcess(certificates.options + more, listen: "0.0.0.0:0")
      server.send(SIGTERM)
      #expect(server.status() == 0)
    }
  }
}
