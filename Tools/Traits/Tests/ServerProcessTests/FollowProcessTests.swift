import BlobRecord
import BlobStore
import Foundation
import Testing

/// Blobs that are read while they are written, by two connections.
@Suite(.serialized, .timeLimit(.minutes(5))) struct FollowProcessTests {
  let server: ServerProcess

  init() throws { server = try ServerProcess() }

  private static let request = "GET /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\n\r\n"

  /// Begins a chunked PUT, and sends its first chunk.
  private func begin() throws -> Connection {
    let writer = try server.connect()
    try writer.send(
      "PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
        + "X-BlobCache-Visibility: whileWriting\r\n\r\n3\r\none\r\n")
    return writer
  }

  /// Returns a connection with a GET whose body has begun, after the server has received the first chunk.
  private func follow() throws -> Connection {
    let reader = try server.connect()
    for _ in 0..<2000 {
      try reader.send(Self.request)
      let (status, fields) = try reader.head()
      guard status == 404 else {
        #expect(status == 200)
        #expect(fields["transfer-encoding"] == "chunked")
        return reader
      }
      _ = try reader.take(Int(fields["content-length"] ?? "") ?? 0)
      usleep(10_000)
    }
    throw Failure("the blob is not seen")
  }

  @Test func aReaderGetsEachPieceAsItComes() throws {
    let writer = try begin()
    let reader = try follow()
    #expect(try reader.chunk() == Data("one".utf8))
    // The response to HEAD has no body, so another response can follow.
    let other = try server.connect()
    for _ in 0..<2 {
      try other.send(Self.request.replacing("GET", with: "HEAD"))
      let head = try other.answer(toHead: true)
      #expect(head.status == 200)
      #expect(head.fields["content-length"] == nil)
      #expect(head.fields["transfer-encoding"] == nil)
    }
    for (chunk, text) in [("3\r\ntwo\r\n", "two"), ("5\r\nthree\r\n", "three")] {
      try writer.send(chunk)
      #expect(try reader.chunk() == Data(text.utf8))
    }
    try writer.send("0\r\n\r\n")
    #expect(try writer.answer().status == 201)
    #expect(try reader.chunk() == nil)
    // The blob is complete.
    try reader.send(Self.request)
    #expect(try reader.answer().text == "onetwothree")
  }

  @Test func anAnswerBreaksOffWithTheBody() throws {
    let writer = try begin()
    let reader = try follow()
    #expect(try reader.chunk() == Data("one".utf8))
    writer.reset()
    #expect(throws: Failure.self) { try reader.chunk() }
    #expect(reader.hasEnded)
    #expect(try server.store().load("a") == nil)
  }

  /// Without chunks, the body ends with the connection, so a client would take an incomplete body for a complete one.
  @Test func theOldProtocolIsToldToWait() throws {
    let writer = try begin()
    _ = try follow()
    let early = try server.connect()
    try early.send("GET /v1/blobs/a HTTP/1.0\r\n\r\n")
    let refusal = try early.answer()
    #expect(refusal.status == 503)
    #expect(refusal.fields["retry-after"] == "1")
    try writer.send("3\r\ntwo\r\n0\r\n\r\n")
    #expect(try writer.answer().status == 201)
    let late = try server.connect()
    try late.send("GET /v1/blobs/a HTTP/1.0\r\n\r\n")
    #expect(try late.answer().body == Data("onetwo".utf8))
  }
}
