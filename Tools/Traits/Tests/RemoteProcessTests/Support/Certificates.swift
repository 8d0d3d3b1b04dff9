import Foundation

/// Certificates that `openssl` creates for a test, in a temporary directory.
final class Certificates: Sendable {
  let directory: URL

  init() async throws {
    directory = FileManager.default.temporaryDirectory.appending(path: "certificates-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    try await openssl(
      ["req", "-x509"] + Self.newKey + [
        "-keyout", path("ca.key"), "-out", path("ca.pem"), "-subj", "/CN=ca", "-days", "2",
      ])
    for (name, days) in [("server", 1), ("client", 1), ("expired", -1)] { try await sign(name, days: days) }
  }

  deinit { try? FileManager.default.removeItem(at: directory) }

  private static let newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]

  func path(_ name: String) -> String { directory.appending(path: name).path }

  private func sign(_ name: String, days: Int) async throws {
    try await openssl(
      ["req"] + Self.newKey + [
        "-keyout", path("\(name).key"), "-out", path("\(name).csr"), "-subj", "/CN=\(name)", "-addext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1",
      ])
    try await openssl([
      "x509", "-req", "-in", path("\(name).csr"), "-CA", path("ca.pem"), "-CAkey", path("ca.key"), "-CAcreateserial",
      "-copy_extensions", "copy", "-out", path("\(name).pem"), "-days", "\(days)",
    ])
  }

  private func openssl(_ arguments: [String]) async throws {
    let made = try await Programs.run(["/usr/bin/env", "openssl"] + arguments)
    guard made.status == 0 else { throw Failure("openssl \(arguments): \(made.errors)") }
  }
}
