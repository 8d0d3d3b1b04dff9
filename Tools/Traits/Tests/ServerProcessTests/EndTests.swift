import BlobRecord
import BlobStore
import Foundation
import Testing

/// The end of a connection, and the bytes that its client has received.
@Suite(.serialized, .timeLimit(.minutes(5))) struct EndTests {
  let server: ServerProcess

  init() throws { server = try ServerProcess() }

  enum Ending: CaseIterable {
    case field, oldProtocol, halfClose
  }

  /// A slow client receives the complete last response.
  @Test(arguments: Ending.allCases) func theLastAnswerComesToItsEnd(ending: Ending) throws {
    let payload = Data((0..<20 << 20).map { UInt8(truncatingIfNeeded: $0 >> 12) })
    try server.store().store(payload, for: "large")
    let connection = try server.connect(receiveBuffer: 8192)
    try connection.send(
      "GET /v1/blobs/large HTTP/1.\(ending == .oldProtocol ? 0 : 1)\r\nHost: localhost\r\n"
        + (ending == .field ? "Connection: close\r\n" : "") + "\r\n")
    if ending == .halfClose { connection.endSending() }
    let answer = try connection.answer(pause: 1000)
    #expect(answer.status == 200)
    #expect(answer.body == payload)
    #expect(connection.hasEnded)
  }

  /// The connection ends, because the client would take bytes after the fields for the next response.
  @Test(arguments: [
    ("HEAD /healthz HTTP/1.1\r\n\r\n", 400), ("HEAD /healthz HTTP/1.1\r\nHost: localhost\r\nExpect: more\r\n\r\n", 417),
  ])
  func aRefusalOfHeadHasNoBodyAndIsTheLast(text: String, status: Int) throws {
    let connection = try server.connect()
    try connection.send(text)
    let answer = try connection.answer(toHead: true)
    #expect(answer.status == status)
    #expect(answer.fields["connection"] == "close")
    #expect(connection.hasEnded)
  }

  /// The decoder treats further bytes as another protocol, so the connection ends.
  @Test(arguments: [
    ("GET /healthz", "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", 200),
    ("GET /healthz", "Connection: keep-alive, upgrade\r\nUpgrade: websocket\r\n\r\n", 200),
    ("PUT /v1/blobs/a", "Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\none", 201),
    ("CONNECT localhost:80", "\r\n", 400),
  ])
  func aRequestForAnotherProtocolIsTheLast(line: String, rest: String, status: Int) throws {
    let connection = try server.connect()
    try connection.send("\(line) HTTP/1.1\r\nHost: localhost\r\n\(rest)")
    let answer = try connection.answer()
    #expect(answer.status == status)
    #expect(answer.fields["connection"] == "close")
    #expect(connection.hasEnded)
  }

  /// A client that sends all of a refused body still receives the response.
  @Test func aRefusalIsReadThoughALargeBodyIsSent() throws {
    let connection = try server.connect()
    let count = 16 << 20
    try connection.send(
      "PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(count)\r\nContent-Encoding: gzip\r\n\r\n")
    try connection.send(Data(count: count))
    #expect(try connection.answer().status == 415)
    #expect(connection.hasEnded)
  }
}
