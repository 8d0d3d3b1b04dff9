import BlobRecord
import BlobStore
import Foundation
import SystemPackage
import Testing

/// Several directories of one server, by a configuration file.
@Suite(.serialized, .timeLimit(.minutes(5))) struct ConfigurationTests {
  private let directory: URL
  private let file: URL

  init() throws {
    directory = FileManager.default.temporaryDirectory.appending(path: "config-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    file = directory.appending(path: "serve.json")
  }

  private func path(_ name: String) -> String { directory.appending(path: name).path }

  @Test func eachDirectoryHasItsNameAndItsSettings() throws {
    defer { try? FileManager.default.removeItem(at: directory) }
    try Data(
      """
      { "defaultTTL": "2h", "directories": {
        "\(path("one"))": { "name": "covers", "sizeLimit": "1000" }, "\(path("two"))": { "every": "1m" } }, "every": "1h" }
      """.utf8
    ).write(to: file)
    let server = try ServerProcess(["--config", file.path], isForDirectory: false)
    for (target, status) in [("/covers/v1/blobs/a", 413), ("/two/v1/blobs/a", 201), ("/one/v1/blobs/a", 404)] {
      let connection = try server.connect()
      try connection.send("PUT \(target) HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000\r\n\r\n")
      try? connection.send(Data(count: 2000))
      #expect(try connection.answer().status == status)
    }
    let connection = try server.connect()
    try connection.send("GET /two/v1/blobs/a HTTP/1.1\r\nHost: localhost\r\n\r\n")
    #expect(try connection.answer().fields["cache-control"] == "max-age=7200")
    #expect(try BlobStore(directory: FilePath(path("two"))).contains("a"))
    server.send(SIGTERM)
    #expect(server.status() == 0)
  }

  /// The schedule removes expired records.
  @Test func theScheduleIsRun() throws {
    defer { try? FileManager.default.removeItem(at: directory) }
    var configuration = BlobStore.Configuration()
    configuration.now = { UnixTime(seconds: 1_000_000_000) }
    let store = try BlobStore(directory: FilePath(path("one")), configuration: configuration)
    try store.store(Data("old".utf8), for: "a", ttl: .seconds(1))
    try Data("{ \"every\": \"1h\", \"directories\": { \"\(path("one"))\": {} } }".utf8).write(to: file)
    let server = try ServerProcess(["--config", file.path], isForDirectory: false)
    let end = ContinuousClock.now + .seconds(60)
    while try store.usage().records > 0 {
      guard ContinuousClock.now < end else { throw Failure("nothing is collected") }
      usleep(20_000)
    }
    server.send(SIGTERM)
    #expect(server.status() == 0)
  }

  @Test(
    arguments: [
      ("{ \"directories\": { \"DIR/one\": { \"name\": \"a b\" } } }", 64, "cannot be a part of an address"),
      (
        "{ \"directories\": { \"DIR/one\": { \"name\": \"two\" }, \"DIR/two\": {} } }", 64,
        "another directory is named two"
      ),
      ("{ \"directories\": { \"DIR/one\": { \"name\": [] } } }", 64, "one\".name: must be a text"),
      ("{ \"directories\": { \"DIR/one\": { \"nome\": \"x\" } } }", 64, "there is no such field"),
      ("{ \"name\": \"x\", \"directories\": { \"DIR/one\": {} } }", 64, "there is no such field"),
      ("{ \"directories\": {} }", 64, "names no directories"), ("{", 64, "serve.json"),
    ] as [(String, Int32, String)])
  func aMistakeIsRefused(text: String, status: Int32, reason: String) throws {
    defer { try? FileManager.default.removeItem(at: directory) }
    try Data(text.replacing("DIR", with: directory.path).utf8).write(to: file)
    let start = try run([ServerProcess.executable.path, "--config", file.path, "--listen", "127.0.0.1:0"])
    #expect(start.status == status)
    #expect(start.errors.contains(reason), "\(start.errors)")
  }

  @Test func whatIsMissingIsRefused() throws {
    defer { try? FileManager.default.removeItem(at: directory) }
    #expect(try run([ServerProcess.executable.path]).status == 64)
    #expect(try run([ServerProcess.executable.path, path("one"), "--config", file.path]).status == 64)
    let start = try run([ServerProcess.executable.path, "--config", file.path])
    #expect(start.status == 2)
    #expect(start.errors.contains("cannot be read: No such file"))
  }
}
