import BlobCacheRemote
import Foundation

@testable import BlobCacheRemote

/// OpenStack Swift's S3. It checks and stores in two steps, so conditions hold only for sequential puts.
final class OpenStackSwift: Sendable {
  private let server: EngineServer
  private let port: Int

  static let shared = Task { try await OpenStackSwift() }

  /// The reason why it is unavailable, or `nil` if it is available.
  static var missing: String? {
    guard LongRun.isWanted else { return LongRun.advice }
    return FileManager.default.isExecutableFile(atPath: python) ? nil : "no \(python); Tools/prerequisites installs it"
  }

  /// A separate environment, because its programs have the name of the compiler and must not be in PATH.
  private static let package = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../..")
    .standardizedFileURL
  private static let python = package.appending(path: ".build/openstack-swift-venv/bin/python").path

  private init() async throws {
    let port = try EngineServer.freePorts(1)[0]
    self.port = port
    server = try await EngineServer("openstack-swift") { directory in
      let program = Self.package.appending(path: "openstack-swift").path
      return [Self.python, program, directory.path, "\(port)"]
    } isReady: { _ in
      isListening(at: port)
    }
    let engine = try S3Engine(settings())
    let made = try await engine.send("PUT", nil)
    try await made.finish()
    await engine.close()
    guard made.status == 200 else { throw Failure("no bucket: \(made.status)") }
  }

  /// Returns the settings of an engine with all rights.
  func settings() throws(RemoteSettingError) -> S3Engine.Settings {
    var settings = S3Engine.Settings(
      bucket: "cache", credentials: .fixed(accessKey: "test:tester", secretKey: "testing"))
    settings.endpoint = try HTTPEndpoint("http://127.0.0.1:\(port)")
    // The server is a single Python process with one thread.
    settings.connectTime = .seconds(60)
    return settings
  }
}
