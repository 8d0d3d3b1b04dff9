import BlobCache
import BlobCacheServer
import BlobRecord
import Foundation
import TestSupport
import Testing

/// Every page, for directories of every kind.
@Suite struct ViewerPageTests {
  private static let pages = [
    "", "?survey=1", "records", "records?state=locked", "records?sort=size", "records?prefix=a&state=damaged",
    "records?at=50", "collections",
  ]
  /// Keys that contain markup, reverse text direction, or would be removed from a path.
  static let hostileKeys = [
    "<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "' onmouseover='alert(1)", "&amp;&lt;", "..", ".",
    "a/../b", "/", "a//b", "%2e%2e", "\u{202E}gnp.exe", "line\nbreak\u{0}\u{7F}", "\u{200B}zero", "</title></a>",
    "ключ 键",
    String(repeating: "long", count: 200),
  ]

  /// Checks that a page contains no script or style, and nothing that is executed.
  private func expectSafe(_ page: Page, sourceLocation: SourceLocation = #_sourceLocation) {
    let text = page.text
    #expect(page.answer["Content-Type"] == "text/html; charset=utf-8", sourceLocation: sourceLocation)
    #expect(
      page.answer["Content-Security-Policy"]?.hasPrefix("default-src 'none'; style-src 'self'; script-src 'self'")
        == true,
      sourceLocation: sourceLocation)
    let scripts = text.matches(of: /<script[^>]*>/).map { String($0.0) }
    #expect(scripts.count == 1, sourceLocation: sourceLocation)
    #expect(scripts.allSatisfy { $0.hasPrefix("<script src=\"viewer.js?v=") }, sourceLocation: sourceLocation)
    #expect(text.firstMatch(of: /<[a-z]+[^>"]* (style|on[a-z]+)=/) == nil, sourceLocation: sourceLocation)
    #expect(text.contains("</html>"), sourceLocation: sourceLocation)
  }

  @Test(arguments: pages) func anEmptyDirectoryHasEveryPage(address: String) async throws {
    let page = try await TestServer().page(address)
    #expect(page.status == 200)
    expectSafe(page)
  }

  @Test(arguments: pages) func aFullDirectoryHasEveryPage(address: String) async throws {
    let server = try TestServer { $0.store.packing = .off }
    for number in 0..<20 {
      let fields: HeaderFields = ["X-BlobCache-TTL": number < 5 ? "10" : "0", "Content-Type": "text/plain"]
      _ = try await server.put("album%2F\(number)", String(repeating: "x", count: number * 1000), fields)
    }
    _ = try await server.cache.lock("album/19")
    server.clock.advance(by: 11)
    _ = try await server.cache.collect()
    try server.overwrite("album/7", at: 0, with: [0])
    let page = try await server.page(address)
    #expect(page.status == 200)
    expectSafe(page)
  }

  /// The sum of these sizes overflows 64 bits.
  @Test(arguments: ["?survey=1", "records?sort=size"]) func sizesThatDamagedHeadersStateAreHeld(
    address: String
  ) async throws {
    let server = try TestServer { $0.store.packing = .off }
    let header = RecordHeader(updateTime: UInt64(server.clock.now.seconds), payloadSize: UInt64(Int64.max))
    for key in ["a", "b", "c"] {
      _ = try await server.put(key, "x")
      try server.overwrite(
        key, at: 0, with: header.withEncodedBytes { bytes in unsafe bytes.withUnsafeBytes { unsafe Array($0) } })
    }
    let page = try await server.page(address)
    #expect(page.status == 200)
    expectSafe(page)
    #expect(try await server.page("records?state=damaged").text.contains("damaged"))
  }

  @Test func aHostileKeyStaysText() async throws {
    let server = try TestServer()
    for key in Self.hostileKeys { try await server.cache.store(Data("payload of a key".utf8), for: BlobKey(key)) }
    let table = try await server.page("records")
    expectSafe(table)
    #expect(!table.text.contains("<script>alert"))
    #expect(!table.text.contains("\u{202E}"))
    #expect(table.text.contains("\\u{202E}"))
    let links = table.links(to: "record?")
    #expect(links.count == Self.hostileKeys.count)
    for link in links {
      let page = try await server.page(link)
      #expect(page.status == 200)
      expectSafe(page)
      #expect(page.text.contains("payload of a key"))
      let download = try #require(page.links(to: "payload?").first)
      #expect(try await server.page(download).text == "payload of a key")
    }
    // Each form encodes its key so that the server decodes the same key.
    for key in Self.hostileKeys {
      let done = try await server.form("change", [("action", "lock"), ("key", key)])
      #expect(done.status == 303)
      #expect(try await server.cache.header(for: BlobKey(key))?.isLocked == true)
    }
  }

  @Test(arguments: [
    "records?state=dead", "records?sort=name", "records?after=1", "records?at=100", "records?at=x", "record",
    "record?key=",
    "record?file=..%2Fx", "record?file=a%2Fb%2Fc", "record?file=.blobcache", "record?file=%2Fetc", "record?file=a%00",
    "payload", "payload?file=a",
  ])
  func aWrongParameterIsAPageThatSaysSo(address: String) async throws {
    let page = try await TestServer().page(address)
    #expect(page.status == 400)
    expectSafe(page)
  }

  @Test(arguments: ["record?key=none", "record?file=11%2Fnone", "payload?key=none"])
  func whatIsNotThereIsAPageThatSaysSo(address: String) async throws {
    let page = try await TestServer().page(address)
    #expect(page.status == 404)
    expectSafe(page)
  }

  /// A link in the directory, of a subdirectory or of a file, leads to no file outside of it.
  @Test(arguments: ["record?file=linked%2Fsecret", "record?file=secret", "record?key=secret"])
  func noLinkIsFollowed(address: String) async throws {
    let server = try TestServer {
      $0.store.packing = .off
      $0.store.layout.arrangement = .prefix
    }
    let outside = server.outside.path.appending("outside").string
    try FileManager.default.createDirectory(atPath: outside, withIntermediateDirectories: true)
    try Data("what nobody must see".utf8).write(to: URL(filePath: outside + "/secret"))
    try await server.cache.store(Data("x".utf8), for: "a")
    for (link, target) in [("linked", outside), ("se", outside), ("secret", outside + "/secret")] {
      try FileManager.default.createSymbolicLink(
        atPath: server.root.appending(link).string, withDestinationPath: target)
    }
    let page = try await server.page(address)
    #expect(page.status == 409)
    #expect(!page.text.contains("77 68 61 74"))
    #expect(!page.text.contains("nobody"))
  }

  @Test func thePathWithoutASlashLeadsToThePages() async throws {
    let answer = try await TestServer().send("GET", "/ui")
    #expect(answer.status == 303)
    #expect(answer["Location"] == "ui/")
    #expect(try await TestServer().send("GET", "/ui/nothing").status == 404)
    #expect(try await TestServer().send("DELETE", "/ui/records").status == 405)
  }

  @Test func whatPagesUseIsKeptForEverByItsContent() async throws {
    let server = try TestServer()
    let page = try await server.page("")
    for (name, type) in [("viewer.css", "text/css"), ("icon.svg", "image/svg+xml")] {
      let link = try #require(page.links(to: name + "?v=").first)
      let answer = try await server.page(link).answer
      #expect(answer["Content-Type"]?.hasPrefix(type) == true)
      #expect(answer["Cache-Control"]?.contains("immutable") == true)
      #expect(!answer.payload.isEmpty)
    }
    #expect(try await server.page("viewer.js").text.contains("use strict"))
  }

  @Test func aDirectoryThatCannotBeUsedIsAPageThatSaysSo() async throws {
    let server = try TestServer()
    try FileManager.default.createDirectory(atPath: server.root.string, withIntermediateDirectories: true)
    // The directory is writable by all users.
    try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: server.root.string)
    for address in ["", "records", "collections"] {
      let page = try await server.page(address)
      #expect(page.status == 503)
      expectSafe(page)
    }
  }
}
