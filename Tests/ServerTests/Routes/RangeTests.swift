import BlobCacheServer
import Foundation
import Testing

/// Range requests of RFC 9110, 14.
@Suite struct RangeTests {
  let server: TestServer

  init() throws { server = try TestServer() }

  @Test(arguments: [
    ("bytes=0-1", "he", "bytes 0-1/5"), ("bytes=3-", "lo", "bytes 3-4/5"), ("bytes=-1", "o", "bytes 4-4/5"),
    ("bytes=1-99", "ello", "bytes 1-4/5"), ("BYTES=0-0", "h", "bytes 0-0/5"), ("bytes=9-,0-0", "h", "bytes 0-0/5"),
  ])
  func oneRangeIs206(range: String, text: String, content: String) async throws {
    _ = try await server.put("a", "hello", ["Content-Type": "text/plain"])
    let answer = try await server.get("a", ["Range": range])
    #expect(answer.status == 206)
    #expect(answer.text == text)
    #expect(answer["Content-Range"] == content)
    #expect(answer["Content-Type"] == "text/plain")
  }

  @Test(arguments: ["bytes=5-", "bytes=-0", "bytes=99-100"])
  func noByteIs416(range: String) async throws {
    _ = try await server.put("a", "hello")
    let answer = try await server.get("a", ["Range": range])
    #expect(answer.status == 416)
    #expect(answer["Content-Range"] == "bytes */5")
  }

  @Test(arguments: [
    "bytes", "bytes=", "BYTES =0-1", "bytes=a-b", "bytes=2-1", "bytes=0-1;2-3", "bytes=0-1,x", "bytes=+1-2",
    "bytes=--1",
    "bytes=1",
  ])
  func whatIsNoRangeIs400(range: String) async throws {
    _ = try await server.put("a", "hello")
    #expect(try await server.get("a", ["Range": range]).status == 400)
    #expect(try await server.get("none", ["Range": range]).status == 404)
    #expect(try await server.send("HEAD", "/v1/blobs/a", ["Range": range]).status == 200)
  }

  @Test func severalFieldsAreNone() async throws {
    _ = try await server.put("a", "hello")
    #expect(try await server.get("a", ["Range": "bytes=0-1", "range": "bytes=0-1"]).status == 400)
  }

  @Test(arguments: ["lines=0-1", "", "bytes=0-4,0-4"])
  func whatHasNoRangeOfBytesIsTheWhole(range: String) async throws {
    _ = try await server.put("a", "hello")
    let answer = try await server.get("a", ["Range": range])
    #expect(answer.status == 200)
    #expect(answer.text == "hello")
  }

  @Test func tooManyRangesAreTheWhole() async throws {
    _ = try await server.put("a", String(repeating: "x", count: 100))
    let many = (0..<17).map { "\($0)-\($0)" }.joined(separator: ",")
    #expect(try await server.get("a", ["Range": "bytes=" + many]).status == 200)
  }

  @Test func severalRangesAreParts() async throws {
    _ = try await server.put("a", "hello", ["Content-Type": "text/plain"])
    let answer = try await server.get("a", ["Range": "bytes=0-1, 4-4"])
    #expect(answer.status == 206)
    let type = try #require(answer["Content-Type"])
    let boundary = try #require(type.firstMatch(of: /^multipart\/byteranges; boundary=([0-9a-f]+)$/)?.1)
    let part = "\r\n--\(boundary)\r\nContent-Type: text/plain\r\nContent-Range: bytes "
    #expect(answer.text == "\(part)0-1/5\r\n\r\nhe\(part)4-4/5\r\n\r\no\r\n--\(boundary)--\r\n")
  }

  @Test(arguments: [("TAG", 206), ("\"other\"", 200), ("W/TAG", 200), ("Sun, 06 Nov 1994 08:49:37 GMT", 200)])
  func aPartIsGivenOfTheNamedPayloadAlone(condition: String, status: Int) async throws {
    _ = try await server.put("a", "hello")
    let tag = try #require(try await server.get("a")["ETag"])
    let fields: HeaderFields = ["Range": "bytes=0-1", "If-Range": condition.replacing("TAG", with: tag)]
    #expect(try await server.get("a", fields).status == status)
  }

  @Test func headHasNoRanges() async throws {
    _ = try await server.put("a", "hello")
    let head = try await server.send("HEAD", "/v1/blobs/a", ["Range": "bytes=0-1"])
    #expect(head.status == 200)
    #expect(head.response.body.byteCount == 5)
  }
}
