import BlobCache
import BlobCacheServer
import BlobRecord
import Foundation
import TestSupport
import Testing

/// The effects of the viewer's forms, and the forms that are refused.
@Suite struct ViewerActionTests {
  @Test func aRecordIsLockedTouchedUnlockedAndRemoved() async throws {
    let server = try TestServer { $0.store.packing = .off }
    _ = try await server.put("a%20b", "hello")
    func act(_ action: String) async throws -> RecordHeader? {
      let done = try await server.form("change", [("action", action), ("key", "a b")])
      #expect(done.status == 303)
      let address = try #require(done.answer["Location"])
      #expect(try await server.page(address).text.contains("role=\"status\""))
      return try await server.cache.header(for: "a b")
    }
    #expect(try await act("lock")?.refCount == 1)
    #expect(try await act("lock")?.refCount == 2)
    #expect(try await act("unlock")?.refCount == 1)
    #expect(try await act("lock")?.refCount == 2)
    #expect(try await act("unlockAll")?.refCount == 0)
    server.clock.advance(by: 60)
    #expect(try await act("touch")?.lastUpdate == server.clock.now)
    #expect(try await act("remove") == nil)
  }

  @Test func thePageOffersWhatCanBeDone() async throws {
    let server = try TestServer { $0.store.packing = .off }
    _ = try await server.put("a", "x", ["X-BlobCache-TTL": "60"])
    let unlocked = try await server.page("record?key=a").text
    #expect(unlocked.contains("value=\"lock\""))
    #expect(!unlocked.contains("value=\"unlock\""))
    // The record has an explicit time to live, which a touch does not extend.
    #expect(!unlocked.contains("value=\"touch\""))
    _ = try await server.cache.lock("a")
    #expect(try await server.page("record?key=a").text.contains("value=\"unlock\""))
  }

  @Test(arguments: [("unlock", "a", 409), ("lock", "none", 404), ("burn", "a", 400), ("lock", "", 400)])
  func whatCannotBeDoneIsSaid(action: String, key: String, status: Int) async throws {
    let server = try TestServer { $0.store.packing = .off }
    _ = try await server.put("a", "x")
    let page = try await server.form("change", [("action", action), ("key", key)])
    #expect(page.status == status)
    #expect(page.text.contains("role=\"alert\""))
  }

  @Test(arguments: ["change", "collect", "verify"]) func aFormOfAnotherPageDoesNothing(action: String) async throws {
    let server = try TestServer { $0.store.packing = .off }
    _ = try await server.put("a", "x", ["X-BlobCache-TTL": "1"])
    server.clock.advance(by: 5)
    let fields = [("action", "remove"), ("key", "a"), ("run", "real")]
    for token in ["", "x", String(repeating: "0", count: 32)] {
      #expect(try await server.form(action, fields, token: token).status == 403)
    }
    let token = try #require(try await server.page("collections").token)
    let body = Data("action=remove&key=a&run=real&token=\(token)".utf8)
    let type = ("Content-Type", "application/x-www-form-urlencoded")
    for fields: HeaderFields in [
      ["Content-Type": type.1, "Origin": "http://evil.example", "Host": "127.0.0.1"],
      ["Content-Type": type.1, "Sec-Fetch-Site": "cross-site"],
      ["Content-Type": type.1, "Sec-Fetch-Site": "same-site"],
    ] {
      #expect(try await server.send("POST", "/ui/" + action, fields, .bytes(body)).status == 403)
    }
    #expect(try await server.send("POST", "/ui/" + action, [:], .bytes(body)).status == 415)
    #expect(try await server.send("POST", "/ui/" + action, ["Content-Type": "text/plain"], .bytes(body)).status == 415)
    let large = Data(count: 201 << 10)
    #expect(try await server.send("POST", "/ui/" + action, ["Content-Type": type.1], .bytes(large)).status == 413)
    let pieces = Pieces(pieces: [large]).body
    #expect(try await server.send("POST", "/ui/" + action, ["Content-Type": type.1], pieces).status == 413)
    #expect(
      try await server.send("POST", "/ui/" + action, ["Content-Type": type.1], .bytes(Data("a=%".utf8))).status == 400)
    #expect(try await server.send("GET", "/ui/" + action).status == 405)
    #expect(FileManager.default.fileExists(atPath: try server.cache.filePath(for: "a").string))
  }

  @Test func aServerForReadingHasNoForms() async throws {
    var configuration = BlobResponder.Configuration()
    configuration.isReadOnly = true
    let server = try TestServer(configuration) { $0.store.packing = .off }
    try await server.cache.store(Data("x".utf8), for: "a")
    for address in ["record?key=a", "collections"] {
      let page = try await server.page(address)
      #expect(page.token == nil)
      #expect(page.text.contains("read only"))
    }
    #expect(try await server.form("change", [("action", "remove"), ("key", "a")], token: "x").status == 403)
    #expect(try await server.cache.contains("a"))
  }

  @Test func aPageHasTheFormsThatItsReaderMaySend() async throws {
    var configuration = BlobResponder.Configuration()
    configuration.access = AccessControl(tokens: [
      AccessToken(name: "r", secret: "r", scopes: [.read]),
      AccessToken(name: "w", secret: "w", scopes: [.read, .write]),
      AccessToken(name: "p", secret: "p", scopes: [.read, .write, .pin]),
      AccessToken(name: "a", secret: "a", scopes: [.read, .admin]),
    ])
    let server = try TestServer(configuration) { $0.store.packing = .off }
    try await server.cache.store(Data("x".utf8), for: "a")
    try await server.cache.lock("a")
    for (secret, changes, pins, collects) in [
      ("r", false, false, false), ("w", true, false, false), ("p", true, true, false), ("a", false, false, true),
    ] {
      let fields: HeaderFields = ["Authorization": "Bearer \(secret)"]
      let record = Page(answer: try await server.send("GET", "/ui/record?key=a", fields))
      #expect((record.token != nil) == changes)
      #expect(record.text.contains("value=\"touch\"") == changes)
      for action in ["lock", "unlock", "unlockAll"] {
        #expect(record.text.contains("value=\"\(action)\"") == pins, "\(secret): \(action)")
      }
      let collections = Page(answer: try await server.send("GET", "/ui/collections", fields))
      #expect((collections.token != nil) == collects)
    }
  }

  @Test func aDryRunComesBeforeACollection() async throws {
    let server = try TestServer { $0.store.packing = .off }
    _ = try await server.put("old", "x", ["X-BlobCache-TTL": "10"])
    _ = try await server.put("new", "x")
    server.clock.advance(by: 11)
    let file = try server.cache.filePath(for: "old").string
    let dry = try await server.form("collect", [("run", "dry")])
    #expect(dry.status == 200)
    #expect(dry.text.contains("A collection would do this"))
    #expect(dry.text.contains("<dt>Expired</dt><dd>1</dd>"))
    #expect(FileManager.default.fileExists(atPath: file))
    let token = try #require(dry.token)
    let real = try await server.form("collect", [("run", "real")], token: token)
    #expect(real.text.contains("<h1>Collected</h1>"))
    #expect(!FileManager.default.fileExists(atPath: file))
    let page = try await server.page("collections")
    #expect(page.text.contains("The last collections"))
    #expect(page.text.contains("<title>\(server.clock.now.iso): 1 expired"))
  }

  @Test func aVerificationNamesWhatIsDamaged() async throws {
    let server = try TestServer { $0.store.packing = .off }
    for key in ["a", "b", "c"] { _ = try await server.put(key, "hello") }
    try server.overwrite("b", at: 66, with: [0xFF])
    #expect(try await server.form("verify", []).status == 303)
    let page = try await verified(server)
    #expect(page.text.contains("2 sound records, 1 damaged"))
    #expect(page.links(to: "record?key=") == ["record?key=b"])
    _ = try await server.cache.remove("b")
    #expect(try await server.form("verify", []).status == 303)
    #expect(try await verified(server).text.contains("all 2 records are sound"))
  }

  private func verified(_ server: TestServer) async throws -> Page {
    while true {
      let page = try await server.page("collections")
      if !page.text.contains("read so far") { return page }
      try await Task.sleep(for: .milliseconds(10))
    }
  }
}

extension UnixTime {
  fileprivate var iso: String {
    Date(timeIntervalSince1970: Double(seconds)).formatted(Date.ISO8601FormatStyle())
  }
}
