import BlobCacheRemote
import Foundation
import Testing

@testable import BlobCacheRemote

/// Servers that respond before they have read the request's body.
@Suite(.timeLimit(.minutes(5))) struct EarlyAnswerTests {
  /// Returns the open files of this process, without directories, below the records' directory.
  private static func openFiles(_ records: Records) -> [String] {
    let descriptors = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
    return descriptors.compactMap { descriptor in
      let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(descriptor)")
      var isDirectory: ObjCBool = false
      _ = FileManager.default.fileExists(atPath: "/proc/self/fd/\(descriptor)", isDirectory: &isDirectory)
      return target?.hasPrefix(records.path) == true && !isDirectory.boolValue ? target : nil
    }
  }

  private static func put(_ engine: any RemoteEngine, from records: Records) async throws {
    let record = try await records.inFile(bytes)
    await #expect(throws: RemoteError.self) { try await engine.put(record, as: RemoteName("a/b")) }
  }

  private static let bytes = Records.bytes(16_000_000, seed: 5)

  /// The file of an upload is closed when the server refuses it, even if the client stays open.
  @Test(arguments: [true, false]) func aRefusedUploadKeepsNoFileOpen(isS3: Bool) async throws {
    let server = try ScriptedServer(isEarly: true) { _ in
      ScriptedServer.answer("413 Content Too Large", "too large", fields: "Content-Type: text/plain\r\n")
    }
    let endpoint = try HTTPEndpoint("http://127.0.0.1:\(server.port)")
    let engine: any RemoteEngine
    if isS3 {
      var settings = S3Engine.Settings(bucket: "cache", credentials: .fixed(accessKey: "AK", secretKey: "SK"))
      settings.endpoint = endpoint
      engine = try S3Engine(settings)
    } else {
      engine = try HTTPEngine(HTTPEngine.Settings(endpoint))
    }
    let records = try Records()
    // A store keeps some files open itself.
    _ = try await records.inFile(Self.bytes)
    let before = Self.openFiles(records)
    for _ in 0..<8 { try await Self.put(engine, from: records) }
    try await eventually("\(before) alone are open") { Self.openFiles(records).count <= before.count }
    await engine.close()
  }
}
