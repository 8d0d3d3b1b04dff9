import Foundation
import Testing

/// The example files next to the server's unit file.
@Suite(.timeLimit(.minutes(5))) struct UnitFileTests {
  private static let units = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "../../../systemd").standardized

  /// The unit's command starts a server with the example configuration.
  @Test func theCommandIsUnderstood() throws {
    let certificates = try Certificates()
    let place = certificates.directory
    let example = try String(contentsOf: Self.units.appending(path: "serve.json"), encoding: .utf8)
    try example.replacing("/var/cache/blobcache", with: place.path)
      .write(to: place.appending(path: "serve.json"), atomically: false, encoding: .utf8)
    for (from, to) in [("server.pem", "certificate.pem"), ("server.key", "key.pem")] {
      try FileManager.default.copyItem(at: place.appending(path: from), to: place.appending(path: to))
    }
    let tokens = place.appending(path: "tokens")
    try Data("anyone - read\n".utf8).write(to: tokens)
    try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: tokens.path)
    let unit = try String(contentsOf: Self.units.appending(path: "blobcache-serve.service"), encoding: .utf8)
    let match = try #require(unit.firstMatch(of: /ExecStart=\/usr\/local\/bin\/blobcache-serve ((?:.*\\\n)*.*)\n/))
    let words = match.1.replacing("\\\n", with: " ").replacing("/etc/blobcache", with: place.path)
      .split(separator: " ").map(String.init).map { $0 == "[::]:8723" ? "0.0.0.0:0" : $0 }
    let listen = try #require(words.firstIndex(of: "--listen"))
    let options = Array(words[..<listen]) + Array(words[(listen + 2)...])
    let server = try ServerProcess(options, listen: words[listen + 1], isForDirectory: false)
    let connection = try Connection(port: server.port, trusting: certificates)
    for (target, status) in [("/covers/v1/blobs", 200), ("/ci/v1/blobs", 200), ("/builds/v1/blobs", 404)] {
      try connection.send("GET \(target) HTTP/1.1\r\nHost: localhost\r\n\r\n")
      #expect(try connection.answer().status == status)
    }
    server.send(SIGTERM)
    #expect(server.status() == 0)
  }
}
