import BlobRecord
import BlobStore
import Foundation
import Testing

/// Payloads that the system sends directly from their files.
@Suite(.serialized, .timeLimit(.minutes(5))) struct FileProcessTests {
  let server: ServerProcess

  init() throws { server = try ServerProcess() }

  private func payload(_ count: Int) -> Data { Data((0..<count).map { UInt8(truncatingIfNeeded: $0 / 251) }) }

  private func get(_ key: String, _ fields: String = "") -> String {
    "GET /v1/blobs/\(key) HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n"
  }

  @Test(arguments: [65_537, 1 << 20, 5 << 20]) func theBytesAreRight(count: Int) throws {
    let payload = payload(count)
    try server.store().store(payload, for: "a")
    let connection = try server.connect()
    for _ in 0..<2 {
      try connection.send(get("a"))
      #expect(try connection.answer().body == payload)
    }
    try connection.send(get("a", "Range: bytes=100-\r\n"))
    let part = try connection.answer()
    #expect(part.status == 206)
    #expect(part.body == payload[100...])
    try connection.send("HEAD /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\n\r\n")
    #expect(try connection.answer(toHead: true).fields["content-length"] == "\(count)")
    try connection.send(get("a", "Connection: close\r\n"))
    #expect(try connection.answer().body == payload)
    #expect(connection.hasEnded)
  }

  @Test(arguments: ["/ui/payload?key=a", "/ui/payload?key=a&download=1", "/v1/blobs/a"])
  func anEmptyPayloadIsAnswered(target: String) throws {
    try server.store().store(Data(), for: "a")
    let connection = try server.connect()
    for _ in 0..<2 {
      try connection.send("GET \(target) HTTP/1.1\r\nHost: localhost\r\n\r\n")
      let answer = try connection.answer()
      #expect(answer.status == 200)
      #expect(answer.fields["content-length"] == "0")
    }
  }

  /// A response with a damaged payload is incomplete.
  @Test func aDamagedPayloadBreaksOff() throws {
    let store = try server.store()
    try store.store(payload(5 << 20), for: "a")
    let file = try FileHandle(forUpdating: URL(filePath: store.filePath(for: "a").string))
    try file.seek(toOffset: 64 + 5 << 20 - 1)
    try file.write(contentsOf: Data([1]))
    try file.close()
    let connection = try server.connect()
    try connection.send(get("a"))
    #expect(throws: Failure.self) { try connection.answer() }
  }

  /// All readers are concurrent, and each receives the version of the blob at the time of its request.
  @Test func slowReadersGetWhatTheyAskedFor() throws {
    let payload = payload(1 << 20)
    try server.store().store(payload, for: "a")
    let readers = try (0..<100).map { _ in try server.connect(receiveBuffer: 4096) }
    for reader in readers { try reader.send(get("a")) }
    // Each response has begun.
    for reader in readers { #expect(try reader.firstByte() == UInt8(ascii: "H")) }
    try server.store().store(Data("other".utf8), for: "a")
    let other = try server.connect()
    try other.send(get("a"))
    #expect(try other.answer().text == "other")
    for reader in readers { #expect(try reader.answer().body == payload) }
  }

  /// A client that disconnects during a response does not affect the server.
  @Test func readersMayGo() throws {
    try server.store().store(payload(3 << 20), for: "a")
    for _ in 0..<20 {
      let reader = try server.connect(receiveBuffer: 4096)
      try reader.send(get("a"))
      _ = try reader.firstByte()
      reader.reset()
    }
    let stopped = try server.connect(receiveBuffer: 4096)
    try stopped.send(get("a"))
    _ = try stopped.firstByte()
    server.send(SIGTERM)
    #expect(try stopped.answer().body == payload(3 << 20))
    #expect(stopped.hasEnded)
    #expect(server.status() == 0)
  }
}
