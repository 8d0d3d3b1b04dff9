import BlobCacheRemote
import Foundation

@testable import BlobCacheRemote

/// An object store with the S3 protocol.
final class SeaweedFS: Sendable {
  let server: EngineServer
  let port: Int

  static var isThere: Bool { Programs.path("weed") != nil }
  /// A server for all suites, with the bucket `cache`.
  static let shared = Task { try await SeaweedFS() }

  private static let identities = """
    {"identities":[
      {"name":"admin","credentials":[{"accessKey":"AKTEST","secretKey":"SKTEST"}],
       "actions":["Admin","Read","Write","List","Tagging"]},
      {"name":"reader","credentials":[{"accessKey":"AKREADER","secretKey":"SKREADER"}],
       "actions":["Read:cache","List:cache"]}]}
    """

  /// - Parameter certificates: The certificates of a server with TLS.
  init(_ certificates: Certificates? = nil) async throws {
    let program = try Programs.required("weed")
    let ports = try EngineServer.freePorts(11)
    let port = ports[0]
    self.port = port
    let settings = { (certificates: Certificates?) throws(RemoteSettingError) in
      try Self.settings(port: port, certificates: certificates)
    }
    server = try await EngineServer("seaweedfs") { directory in
      let data = directory.appending(path: "data")
      try FileManager.default.createDirectory(at: data, withIntermediateDirectories: true)
      let configuration = directory.appending(path: "s3.json")
      try Data(Self.identities.utf8).write(to: configuration)
      let tls = certificates.map {
        ["-s3.cert.file=\($0.path("server.pem"))", "-s3.key.file=\($0.path("server.key"))"]
      }
      return [
        program, "-logtostderr", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-dir=\(data.path)", "-s3",
        "-s3.port=\(port)", "-s3.port.grpc=\(ports[1])", "-s3.port.iceberg=\(ports[2])", "-s3.port.lance=\(ports[3])",
        "-s3.config=\(configuration.path)", "-master.port=\(ports[4])", "-master.port.grpc=\(ports[5])",
        "-volume.port=\(ports[6])", "-volume.port.grpc=\(ports[7])", "-filer.port=\(ports[8])",
        "-filer.port.grpc=\(ports[9])", "-volume.max=50", "-master.volumeSizeLimitMB=64", "-master.telemetry=false",
        "-s3.autoCreateBucket=false",
      ] + (tls ?? [])
    } isReady: { _ in
      let engine = try S3Engine(settings(certificates))
      // A starting server refuses connections or returns errors.
      let isReady = (try? await Self.takesObjects(engine)) ?? false
      await engine.close()
      return isReady
    }
  }

  private static func takesObjects(_ engine: S3Engine) async throws -> Bool {
    let made = try await engine.send("PUT", nil)
    try await made.finish()
    guard [200, 409].contains(made.status) else { return false }
    let put = try await engine.send("PUT", RemoteName("ready"), body: .bytes(Data("ready".utf8)))
    try await put.finish()
    return put.status == 200
  }

  private static func settings(
    port: Int, certificates: Certificates? = nil
  ) throws(RemoteSettingError) -> S3Engine.Settings {
    var settings = S3Engine.Settings(bucket: "cache", credentials: .fixed(accessKey: "AKTEST", secretKey: "SKTEST"))
    settings.endpoint = try HTTPEndpoint("\(certificates == nil ? "http" : "https")://127.0.0.1:\(port)")
    if let certificates { settings.security.authority = FilePath(certificates.path("ca.pem")) }
    return settings
  }

  /// Returns the settings of an engine with all rights.
  func settings(_ certificates: Certificates? = nil) throws -> S3Engine.Settings {
    try Self.settings(port: port, certificates: certificates)
  }
}
