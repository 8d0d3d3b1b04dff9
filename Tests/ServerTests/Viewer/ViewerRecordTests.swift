import BlobCache
import BlobCacheServer
import BlobRecord
import Foundation
import TestSupport
import Testing

/// The page of one record, and its preview of the payload.
@Suite struct ViewerRecordTests {
  private static let png: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 1, 2, 3]
  private static let mp3: [UInt8] = Array("ID3".utf8) + [4, 0, 0, 0, 0, 0, 0]

  @Test func everyFieldHasAMeaningAndAVerdict() async throws {
    let server = try TestServer { $0.store.packing = .off }
    _ = try await server.put("a", "hello", ["X-BlobCache-TTL": "3600", "X-BlobCache-Locks": "one"])
    let page = try await server.page("record?key=a")
    #expect(page.status == 200)
    for field in RecordField.allCases { #expect(page.text.contains("<td class=\"mark\">\(field.rawValue)</td>")) }
    #expect(page.text.contains("<span class=\"verdict ok\">ok</span>"))
    #expect(!page.text.contains("verdict broken"))
    #expect(page.text.contains("Sound: the header and the payload are what was stored."))
    #expect(page.text.contains("never while it is locked"))
    #expect(page.text.contains("title=\"byte 63: crc\""))
  }

  @Test(arguments: [("payload", 66, "payloadChecksumMismatch"), ("header", 0, "magicMismatch")])
  func damageIsSaid(place: String, offset: Int, name: String) async throws {
    let server = try TestServer { $0.store.packing = .off }
    _ = try await server.put("a", "hello")
    try server.overwrite("a", at: offset, with: [0xFF])
    let page = try await server.page("record?key=a")
    #expect(page.status == 200)
    #expect(page.text.contains("<b>Damaged:</b> \(name)"))
    #expect(page.text.contains("verdict broken"))
    #expect(page.text.contains("class=\"state damaged\""))
    #expect(page.links(to: "payload?") == [])
  }

  @Test func aFileThatTellsNoKeyHasAPageByItsName() async throws {
    let server = try TestServer {
      $0.store.packing = .off
      $0.store.layout.naming = .sha256
    }
    _ = try await server.put("a", "hello")
    // Without the header, the position of the stored key is unknown.
    try server.overwrite("a", at: 0, with: Array(repeating: 0, count: 64))
    let table = try await server.page("records")
    let link = try #require(table.links(to: "record?file=").first)
    let page = try await server.page(link)
    #expect(page.status == 200)
    #expect(page.text.contains("<b>Damaged:</b>"))
    #expect(!page.text.contains("action=\"change\""))
  }

  @Test func aShortFileIsShownAsFarAsItGoes() async throws {
    let server = try TestServer { $0.store.packing = .off }
    _ = try await server.put("a", "hello")
    try FileHandle(forUpdating: URL(filePath: try server.cache.filePath(for: "a").string)).truncate(atOffset: 10)
    let page = try await server.page("record?key=a")
    #expect(page.text.contains("fewer bytes than a header"))
    #expect(page.text.contains("title=\"byte 9: refCount\""))
  }

  @Test func markupAsAPayloadStaysText() async throws {
    let server = try TestServer()
    let markup = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    _ = try await server.put("a", markup, ["Content-Type": "text/html"])
    let page = try await server.page("record?key=a")
    #expect(page.text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"))
    #expect(!page.text.contains("<script>alert"))
    let payload = try await server.page("payload?key=a").answer
    #expect(payload["Content-Type"] == "application/octet-stream")
    #expect(payload["Content-Disposition"] == "attachment")
    #expect(payload["Content-Security-Policy"] == "default-src 'none'; sandbox")
  }

  @Test(
    arguments: [
      (png, nil, "img", "image/png"), (mp3, nil, "audio", "audio/mpeg"),
      (Array("OggS".utf8), "audio/ogg", "audio", "audio/ogg"),
      (Array("x".utf8), "video/webm", "video", "video/webm"),
    ] as [([UInt8], String?, String, String)])
  func mediaAreShownInPlace(bytes: [UInt8], stored: String?, element: String, type: String) async throws {
    let server = try TestServer()
    try await server.cache.store(Data(bytes), for: "a", extendedData: stored.map { Data($0.utf8) })
    let page = try await server.page("record?key=a")
    #expect(page.text.contains("<\(element) class=\"preview\" src=\"payload?key=a\""))
    let part = try await server.send("GET", "/ui/payload?key=a", ["Range": "bytes=0-0"])
    #expect(part.status == 206)
    #expect(part["Content-Type"] == type)
    #expect(part["X-Content-Type-Options"] == "nosniff")
    #expect(part.payload == Data(bytes.prefix(1)))
    let kept = try await server.page("payload?key=a&download=1").answer
    #expect(kept["Content-Disposition"] == "attachment")
    #expect(kept["Content-Type"] == "application/octet-stream")
  }

  @Test func bytesOfNoKindAreShownAsDigits() async throws {
    let server = try TestServer()
    try await server.cache.store(Data((0..<255).map { UInt8($0) } + Data(count: 300)), for: "a")
    let page = try await server.page("record?key=a")
    #expect(page.text.contains("0040  40 41 42"))
    #expect(page.text.contains("There is more."))
    _ = try await server.put("b", "")
    #expect(try await server.page("record?key=b").text.contains("It is empty."))
  }

  /// The payload is read only on request.
  @Test func aLargePayloadIsComparedWhenThatIsAskedFor() async throws {
    let server = try TestServer()
    try await server.cache.store(Data(count: (16 << 20) + 1), for: "a")
    try server.overwrite("a", at: 100, with: [1])
    let page = try await server.page("record?key=a")
    #expect(page.text.contains("was not compared with its checksum"))
    let link = try #require(page.links(to: "record?key=a&check=1").first)
    #expect(try await server.page(link).text.contains("payloadChecksumMismatch"))
  }

  @Test func aLookIsNoUse() async throws {
    let server = try TestServer()
    _ = try await server.put("a", "hello")
    let before = try await server.cache.header(for: "a")
    server.clock.advance(by: 60)
    _ = try await server.page("record?key=a")
    _ = try await server.page("payload?key=a")
    #expect(try await server.cache.header(for: "a") == before)
  }

  @Test func whatHasExpiredIsShownWithoutItsPayload() async throws {
    let server = try TestServer()
    _ = try await server.put("a", "hello", ["X-BlobCache-TTL": "10"])
    server.clock.advance(by: 11)
    let page = try await server.page("record?key=a")
    #expect(page.text.contains("its time is over"))
    #expect(!page.text.contains("value=\"lock\""))
    #expect(page.text.contains("value=\"remove\""))
  }
}
