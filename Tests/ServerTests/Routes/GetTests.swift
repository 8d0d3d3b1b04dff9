import BlobCache
import BlobCacheServer
import BlobRecord
import Foundation
import SystemPackage
import TestSupport
import Testing

@Suite struct GetTests {
  let server: TestServer

  init() throws { server = try TestServer() }

  @Test func anAbsentBlobIs404() async throws {
    let answer = try await server.get("none")
    #expect(answer.status == 404)
    #expect(answer["Cache-Control"] == "no-store")
    #expect(answer.text == "there is no such blob\n")
  }

  @Test func whatWasPutIsGot() async throws {
    #expect(try await server.put("a%2Fb", "hello", ["Content-Type": "text/plain; charset=utf-8"]).status == 201)
    server.clock.advance(by: 7)
    let answer = try await server.get("a/b")
    #expect(answer.status == 200)
    #expect(answer.text == "hello")
    #expect(answer["Content-Type"] == "text/plain; charset=utf-8")
    #expect(answer["Age"] == "7")
    #expect(answer["Cache-Control"] == "max-age=600")
    #expect(answer["X-BlobCache-TTL"] == "0")
    #expect(answer["Accept-Ranges"] == "bytes")
    #expect(answer["X-Content-Type-Options"] == "nosniff")
    #expect(answer["Content-Security-Policy"] == "default-src 'none'; sandbox")
  }

  @Test func anExpiredBlobIs404AndALockedOneIsNot() async throws {
    for key in ["a", "b"] { _ = try await server.put(key, "x", ["X-BlobCache-TTL": "10"]) }
    #expect(try await server.send("POST", "/v1/blobs/b?lock").status == 204)
    server.clock.advance(by: 11)
    #expect(try await server.get("a").status == 404)
    let locked = try await server.get("b")
    #expect(locked.status == 200)
  }

  @Test func theTagNamesThePayloadAlone() async throws {
    _ = try await server.put("a", "one")
    _ = try await server.put("b", "two")
    let tag = try #require(try await server.get("a")["ETag"])
    #expect(try await server.get("b")["ETag"] != tag)
    server.clock.advance(by: 5)
    _ = try await server.put("a", "one", ["X-BlobCache-TTL": "5"])
    #expect(try await server.get("a")["ETag"] == tag)
  }

  @Test(arguments: ["*", "TAG", "W/TAG", "\"other\", TAG", " TAG ,", "\"x,y\",TAG"])
  func aTagThatMatchesIs304(list: String) async throws {
    _ = try await server.put("a", "one")
    let tag = try #require(try await server.get("a")["ETag"])
    let answer = try await server.get("a", ["If-None-Match": list.replacing("TAG", with: tag)])
    #expect(answer.status == 304)
    #expect(answer["ETag"] == tag)
    #expect(answer["Content-Type"] == "application/octet-stream")
    #expect(answer.payload.isEmpty)
  }

  @Test(arguments: [("*", 200), ("TAG", 200), ("\"other\"", 412), ("W/TAG", 412)])
  func ifMatchComparesStrongly(list: String, status: Int) async throws {
    _ = try await server.put("a", "one")
    let tag = try #require(try await server.get("a")["ETag"])
    let fields: HeaderFields = ["If-Match": list.replacing("TAG", with: tag)]
    #expect(try await server.get("a", fields).status == status)
    // The request would fail without the condition too, so the condition is ignored (RFC 9110, 13.2.1).
    #expect(try await server.get("none", fields).status == 404)
    #expect(try await server.send("DELETE", "/v1/blobs/none", fields).status == 404)
  }

  @Test(arguments: ["", "tag", "\"open", "\"a\" \"b\"", "* \"a\"", "**"])
  func whatIsNoTagIs400(list: String) async throws {
    for name in ["If-Match", "If-None-Match"] {
      var fields = HeaderFields()
      fields.append(name, list)
      #expect(try await server.get("a", fields).status == 400)
      #expect(try await server.put("a", "x", fields).status == 400)
    }
  }

  @Test func headTellsTheSizeAndTouchesNothing() async throws {
    _ = try await server.put("a", "hello")
    server.clock.advance(by: 500)
    let head = try await server.send("HEAD", "/v1/blobs/a")
    #expect(head.status == 200)
    #expect(head.response.body.byteCount == 5)
    #expect(head.payload.isEmpty)
    #expect(head["Age"] == "500")
    server.clock.advance(by: 200)
    #expect(try await server.send("HEAD", "/v1/blobs/a").status == 404)
  }

  @Test(arguments: [
    "image/png", "image/jpeg", "image/gif", "image/webp", "IMAGE/AVIF", "audio/mpeg", "video/mp4; codecs=\"a,b; c\"",
  ])
  func whatRunsNothingIsShownInPlace(type: String) async throws {
    _ = try await server.put("a", "<script>", ["Content-Type": type])
    let answer = try await server.get("a")
    #expect(answer["Content-Type"] == type)
    #expect(answer["Content-Disposition"] == nil)
    #expect(answer["Cross-Origin-Resource-Policy"] == "same-origin")
  }

  @Test(arguments: [
    "text/plain", "application/json", "application/zip", "image/x-unknown", "text/plain; charset=utf-8",
  ])
  func otherTypesAreDownloads(type: String) async throws {
    _ = try await server.put("a", "<script>", ["Content-Type": type])
    let answer = try await server.get("a")
    #expect(answer["Content-Type"] == type)
    #expect(answer["Content-Disposition"] == "attachment")
  }

  /// Types that a page can execute or include are not sent.
  @Test(arguments: [
    "text/html", "TEXT/HTML; charset=utf-8", "image/svg+xml", "IMAGE/SVG+XML", "image/x+xml", "audio/x+xml", "text/xml",
    "application/xhtml+xml", "application/xslt+xml", "text/javascript", "application/ecmascript", "text/css",
    "application/wasm", "application/pdf", "multipart/x-mixed-replace", "message/rfc822", "text/vbscript",
  ])
  func whatRunsIsOctets(type: String) async throws {
    _ = try await server.put("a", "<script>", ["Content-Type": type])
    for range in [nil, "bytes=0-1", "bytes=0-1,3-4"] as [String?] {
      let answer = try await server.get("a", range.map { ["Range": $0] } ?? [:])
      #expect(!(answer["Content-Type"] ?? "").contains(type))
      #expect(!answer.text.lowercased().contains(type.lowercased()))
      #expect(answer["Content-Disposition"] == "attachment")
    }
    #expect(try await server.get("a")["Content-Type"] == "application/octet-stream")
  }

  /// A browser may parse these types differently than the server.
  @Test(arguments: [
    "image/png;,text/html", "image/png, text/html", "image/png; a", "image/png; a=", "image/png; =b",
    "image/png; a=\"b", "image/png; a=\"b\"c", "image/png; a=b c", "image/png; a=b,text/html", "image/png; a=\"\\",
  ])
  func whatIsNoTypeIsRefused(type: String) async throws {
    #expect(try await server.put("a", "x", ["Content-Type": type]).status == 400)
    try await server.cache.store(Data("x".utf8), for: "a", extendedData: Data(type.utf8))
    let answer = try await server.get("a")
    #expect(answer["Content-Type"] == "application/octet-stream")
    #expect(answer["Content-Disposition"] == "attachment")
  }

  @Test func extendedDataThatAreNoTypeAreNotAnswered() async throws {
    try await server.cache.store(Data("x".utf8), for: "a", extendedData: Data("text/html\r\nSet-Cookie: a=b".utf8))
    #expect(try await server.get("a")["Content-Type"] == "application/octet-stream")
  }
}
