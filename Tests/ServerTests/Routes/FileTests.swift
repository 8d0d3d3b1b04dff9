import BlobCache
import BlobCacheServer
import BlobRecord
import Foundation
import TestSupport
import Testing

/// Payloads that are sent from their files.
@Suite struct FileTests {
  private static func payload(_ count: Int, for test: String) -> Data {
    var generator = SeededGenerator(seed: SeededGenerator.announcedSeed(for: test))
    return Data((0..<count).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
  }

  @Test(arguments: [true, false]) func aLargeBlobIsWhole(isInMemory: Bool) async throws {
    let server = try TestServer { $0.memory = isInMemory ? $0.memory : nil }
    let payload = Self.payload(1_000_000, for: "aLargeBlobIsWhole")
    try await server.cache.store(payload, for: "large")
    // The first request verifies the file, the second one does not.
    for _ in 0..<2 { #expect(try await server.get("large").payload == payload) }
    let part = try await server.get("large", ["Range": "bytes=100000-799999"])
    #expect(part.status == 206)
    #expect(part.payload == payload[100_000..<800_000])
    let short = try await server.get("large", ["Range": "bytes=999998-"])
    #expect(short.payload == payload[999_998...])
    let parts = try await server.get("large", ["Range": "bytes=0-99999,900000-"])
    #expect(parts.payload.range(of: payload[..<100_000]) != nil)
    #expect(parts.payload.range(of: payload[900_000...]) != nil)
  }

  /// The payload is larger than the part that is verified before the answer begins.
  @Test func aVeryLargeBlobIsReadStretchByStretch() async throws {
    let server = try TestServer { $0.memory = nil }
    let payload = Data(repeating: 7, count: 5 << 20) + Self.payload(1000, for: "aVeryLargeBlobIsReadStretchByStretch")
    try await server.cache.store(payload, for: "large")
    let answer = try await server.get("large")
    #expect(answer.payload == payload)
    #expect(answer.pieceCount == 6)
    let part = try await server.get("large", ["Range": "bytes=1000-"])
    #expect(part.payload == payload[1000...])
    guard case .file(let file) = answer.response.body else { throw Missing() }
    var pieces = Data()
    for try await piece in file.pieces { pieces.append(piece) }
    #expect(pieces == payload)
  }

  private struct Missing: Error {}

  @Test(arguments: [(100, 500), (500_000, 500), (5 << 20, 200)])
  func aDamagedBlobIs500OrBreaksOff(count: Int, status: Int) async throws {
    let server = try TestServer {
      $0.store.packing = .off
      $0.memory = nil
    }
    try await server.cache.store(Data(count: count), for: "a")
    try Self.damage("a", in: server)
    let response = await server.responder.respond(to: ServerRequest(method: "GET", target: "/v1/blobs/a"))
    #expect(response.status == status)
    if status == 200 {
      guard case .file(let file) = response.body else { throw Missing() }
      var sent: Int64 = 0
      await #expect(throws: (any Error).self) { for try await stretch in file { sent += Int64(stretch.count) } }
      #expect(sent == 4 << 20)
      await #expect(throws: (any Error).self) { for try await _ in file.pieces {} }
    } else {
      #expect(try await !Answer(response).text.contains(server.root.string))
    }
  }

  /// A verified file is not verified again for some seconds, so a popular blob is not verified with each request.
  @Test func aSoundFileIsSoundForAWhile() async throws {
    let server = try TestServer { $0.memory = nil }
    let clock = server.clock
    try await server.cache.store(Data(count: 500_000), for: "a", ttl: .seconds(3600))
    let path = try server.cache.filePath(for: "a").string
    // The time is so old that any change would show, and has a fraction of a second.
    let time = Date(timeIntervalSince1970: 1_700_000_000.25)
    try FileManager.default.setAttributes([.modificationDate: time], ofItemAtPath: path)
    #expect(try await server.get("a").status == 200)
    try Self.damage("a", in: server)
    // The old modification time makes this look like damage by the disk.
    try FileManager.default.setAttributes([.modificationDate: time], ofItemAtPath: path)
    #expect(try await server.get("a").status == 200)
    clock.advance(by: 10)
    #expect(try await server.get("a").status == 500)
  }

  @Test func aFileThatIsWrittenToIsComparedAgain() async throws {
    let server = try TestServer { $0.memory = nil }
    try await server.cache.store(Data(count: 500_000), for: "a", ttl: .seconds(3600))
    let path = try server.cache.filePath(for: "a").string
    let time = Date(timeIntervalSince1970: 1_700_000_000.25)
    try FileManager.default.setAttributes([.modificationDate: time], ofItemAtPath: path)
    #expect(try await server.get("a").status == 200)
    try Self.damage("a", in: server)
    #expect(try await server.get("a").status == 500)
  }

  @Test func aSmallerBlobMayTakeThePlace() async throws {
    let server = try TestServer { $0.memory = nil }
    try await server.cache.store(Data(count: 500_000), for: "a")
    let path = try server.cache.filePath(for: "a").string
    let time = Date(timeIntervalSince1970: 1_700_000_000.25)
    try FileManager.default.setAttributes([.modificationDate: time], ofItemAtPath: path)
    #expect(try await server.get("a").status == 200)
    #expect(try await server.put("a", "small").status == 204)
    #expect(try await server.get("a").text == "small")
    #expect(try await server.send("DELETE", "/v1/blobs/a").status == 204)
    #expect(try await server.get("a").status == 404)
  }

  /// Changes the last byte of a payload.
  private static func damage(_ key: String, in server: TestServer) throws {
    let path = try server.cache.filePath(for: BlobKey(key)).string
    let file = try FileHandle(forUpdating: URL(filePath: path))
    try file.seek(toOffset: file.seekToEnd() - 1)
    try file.write(contentsOf: Data([1]))
    try file.close()
  }
}
