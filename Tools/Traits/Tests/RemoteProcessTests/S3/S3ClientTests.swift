import BlobCacheRemote
import Foundation
import Testing

@testable import BlobCache
@testable import BlobCacheRemote

/// Interoperability with other programs on one object store.
@Suite(.enabled(if: SeaweedFS.isThere, "no weed; Tools/prerequisites installs it"), .timeLimit(.minutes(5)))
struct S3ClientTests {
  private let namespace = "machines/\(UUID().uuidString)"

  private func engine() async throws -> S3Engine { try S3Engine(try await SeaweedFS.shared.value.settings()) }

  private func machine() async throws -> Machine { try Machine(try await engine(), namespace: namespace) }

  /// An independent program reads the engine's objects, and the engine reads that program's objects.
  @Test(.enabled(if: Programs.path("s3cmd") != nil, "no s3cmd; Tools/prerequisites installs it"))
  func anotherClientSeesTheSame() async throws {
    let machine = try await machine()
    let payload = Records.bytes(3000, seed: 3)
    let key: BlobKey = "album/42 ä"
    try await machine.cache.store(payload, for: key, ttl: .seconds(600))
    let name = try RemoteNamespace(namespace).place(of: key).name
    let folder = FileManager.default.temporaryDirectory.appending(path: "client-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let copy = folder.appending(path: try #require(name.string.split(separator: "/").last)).path
    try await s3cmd(["get", "s3://cache/\(name)", copy])
    let bytes = try Data(contentsOf: URL(filePath: copy))
    let engine = try await engine()
    #expect(try await engine.bytes(of: name) == bytes)
    #expect(try await engine.head(name) == bytes.prefix(64))
    #expect(bytes.dropFirst(64).prefix(3000) == payload)
    #expect(try await s3cmd(["ls", "--recursive", "s3://cache/\(namespace)/"]).contains("s3://cache/\(name)\n"))
    // The copy is a record of the file format.
    let tool = Bundle.main.bundleURL.appending(path: "blobcache").path
    let dumped = try await Programs.run([tool, "dump", copy])
    #expect(dumped.status == 0 && String(decoding: dumped.output, as: UTF8.self).contains("3000"), "\(dumped)")
    // The other program uploads the object again under the same name.
    _ = try await machine.cache.removeEverywhere(key)
    #expect(try await engine.get(name) == nil)
    try await s3cmd(["put", copy, "s3://cache/\(name)"])
    let other = try await self.machine()
    #expect(try await other.cache.load(key)?.payload == payload)
    for machine in [machine, other] { try await machine.cache.close() }
    await engine.close()
  }

  @discardableResult private func s3cmd(_ arguments: [String]) async throws -> String {
    let port = try await SeaweedFS.shared.value.port
    let options = [
      "--config=/dev/null", "--no-ssl", "--host=127.0.0.1:\(port)", "--host-bucket=127.0.0.1:\(port)",
      "--access_key=AKTEST",
      "--secret_key=SKTEST", "--no-progress",
    ]
    let result = try await Programs.run([try Programs.required("s3cmd")] + options + arguments)
    guard result.status == 0 else { throw Failure("s3cmd \(arguments): \(result.errors)") }
    return String(decoding: result.output, as: UTF8.self)
  }
}
