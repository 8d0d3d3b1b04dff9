import BlobStore
import BlobRecord
import Foundation
import Testing

/// The typical commands of users, with the installed curl.
@Suite(.serialized, .timeLimit(.minutes(5)), .enabled(if: ClientPrograms.areInstalled("curl"), "there is no curl"))
struct CurlTests {
  let server: ServerProcess
  let workplace: Workplace

  init() throws {
    server = try ServerProcess()
    workplace = try Workplace()
    try workplace.write(String(repeating: "0123456789", count: 300_000), to: "large")
  }

  private func url(_ path: String) -> String { server.address + path }

  /// - Returns: The status, and further text that curl writes to standard output.
  private func status(_ arguments: String...) throws -> String {
    try workplace.run(["curl", "-sS", "-o", "answer", "-w", "%{http_code}"] + arguments)
  }

  private var answer: String {
    get throws { String(decoding: try Data(contentsOf: workplace.folder.appending(path: "answer")), as: UTF8.self) }
  }

  /// curl sends a large file after the server's 100 Continue. Without it, curl waits for a second.
  @Test(arguments: ["-T", "--data-binary"]) func aFileIsSentOnceItIsWanted(option: String) throws {
    let file = option == "-T" ? "large" : "@large"
    let log = try workplace.run(
      "curl", "-sSv", "-X", "PUT", "-H", "Expect: 100-continue", "--expect100-timeout", "60", option, file,
      url("v1/blobs/a"))
    #expect(log.contains("< HTTP/1.1 100 Continue"))
    #expect(log.contains("< HTTP/1.1 201 Created"))
    #expect(try server.store().load("a")?.payload.count == 3_000_000)
  }

  @Test func aFileThatIsTooLargeIsNotSent() throws {
    let server = try ServerProcess(["--largest-payload", "1MB"])
    let log = try workplace.run(
      "curl", "-sSv", "-H", "Expect: 100-continue", "-T", "large", server.address + "v1/blobs/a")
    #expect(log.contains("< HTTP/1.1 413 "))
    #expect(!log.contains("100 Continue"))
  }

  @Test func aStreamIsSentInChunks() throws {
    try workplace.run("bash", "-c", "head -c 1000000 large | curl -sSf -T - \(url("v1/blobs/a%2Fb"))")
    #expect(try server.store().load("a/b")?.payload.count == 1_000_000)
  }

  @Test func partsAreGot() throws {
    #expect(try status("-T", "large", url("v1/blobs/a")) == "201")
    #expect(try status("-r", "10-14", url("v1/blobs/a")) == "206")
    #expect(try answer == "01234")
    #expect(try status("-r", "-3", url("v1/blobs/a")) == "206")
    #expect(try answer == "789")
    #expect(try status("-r", "0-1,10-12", url("v1/blobs/a")) == "206")
    #expect(try answer.contains("Content-Range: bytes 10-12/3000000\r\n\r\n012\r\n"))
    #expect(try status("-r", "3000000-", url("v1/blobs/a")) == "416")
    // An interrupted download is resumed.
    try workplace.run(
      "bash", "-c", "head -c 1234567 large >part && curl -sSf -C - -o part \(url("v1/blobs/a")) && cmp part large")
  }

  @Test func whatIsKnownIsNotSentAgain() throws {
    #expect(try status("-T", "large", url("v1/blobs/a")) == "201")
    #expect(try status("--etag-save", "tag", url("v1/blobs/a")) == "200")
    #expect(try answer.utf8.count == 3_000_000)
    #expect(try status("--etag-compare", "tag", "-o", "again", url("v1/blobs/a")) == "304")
    #expect(try status("-X", "PUT", "-d", "other", url("v1/blobs/a")) == "204")
    #expect(try status("--etag-compare", "tag", url("v1/blobs/a")) == "200")
    #expect(try answer == "other")
    #expect(try status("-X", "PUT", "-H", "If-None-Match: *", "-d", "third", url("v1/blobs/a")) == "412")
  }

  @Test func aHeadHasNoBody() throws {
    #expect(try status("-T", "large", url("v1/blobs/a")) == "201")
    let text = try workplace.run("curl", "-sSI", url("v1/blobs/a"))
    #expect(text.hasPrefix("HTTP/1.1 200 OK\r\n"))
    #expect(text.contains("\r\nContent-Length: 3000000\r\n"))
    #expect(try workplace.run("curl", "-sSI", url("v1/blobs/b")).hasPrefix("HTTP/1.1 404 "))
  }

  /// The requests of Turborepo's client according to its API description, because not every registry has the client.
  @Test func turboreposExchangeIsAnswered() throws {
    let base = url("turbo/v8/artifacts")
    let query = "?teamId=team_a&slug=a"
    #expect(try status(base + "/status" + query) == "200")
    #expect(try answer == "{\"status\":\"enabled\"}")
    #expect(try status(base + "/0a1b2c3d4e5f6071" + query) == "404")
    let stored = try status(
      "-T", "large", "-H", "Content-Type: application/octet-stream", "-H", "x-artifact-duration: 400", "-H",
      "x-artifact-tag: YWJj", "-H", "User-Agent: turbo 2.0.0 1.80.0 linux x86_64", base + "/0a1b2c3d4e5f6071" + query)
    #expect(stored == "202")
    let head = try workplace.run("curl", "-sSI", base + "/0a1b2c3d4e5f6071" + query)
    for line in ["HTTP/1.1 200 OK", "Content-Length: 3000000", "x-artifact-duration: 400", "x-artifact-tag: YWJj"] {
      #expect(head.contains(line + "\r\n"))
    }
    #expect(try status(base + "/0a1b2c3d4e5f6071" + query) == "200")
    #expect(try answer.utf8.count == 3_000_000)
    #expect(try status("-d", "{\"hashes\":[\"0a1b2c3d4e5f6071\",\"0b\"]}", base + query) == "200")
    #expect(try answer.contains("\"0b\":null"))
    #expect(try status("-d", "[]", base + "/events" + query) == "200")
  }
}
