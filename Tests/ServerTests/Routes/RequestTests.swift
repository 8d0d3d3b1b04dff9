import BlobCache
import BlobCacheServer
import BlobRecord
import Foundation
import SystemPackage
import TestSupport
import Testing

/// The checks of every request, whatever its route.
@Suite struct RequestTests {
  let server: TestServer

  init() throws { server = try TestServer() }

  @Test(arguments: [
    ("a//b/../c", "a//b/../c"), ("a%2Fb", "a/b"), ("%2e%2E%2f", "../"), ("a%25b", "a%b"), ("a+b", "a+b"),
    ("%C3%A4", "ä"), ("%F0%9F%8E%B5", "🎵"), ("/", "/"), ("a/", "a/"), ("%00%0A", "\0\n"), ("%3Cscript%3E", "<script>"),
    ("a?x=1", "a"), ("a%3Fx", "a?x"),
  ])
  func aKeyIsThePathDecodedOnce(path: String, key: String) async throws {
    #expect(try await server.put(path, "x").status == 201)
    #expect(try await server.cache.contains(.init(key)))
  }

  @Test(arguments: [
    "", "v1/blobs/a", "ftp://localhost/v1/blobs/a", "localhost:80", "*", "://localhost/v1/blobs/a", "/v1/blobs/",
    "/v1/blobs/%", "/v1/blobs/%4",
    "/v1/blobs/%zz", "/v1/blobs/%C3", "/v1/blobs/%ff", "/v1/blobs/a b", "/v1/blobs/ä", "/v1/blobs/a#b",
    "/v1/blobs/a\r\nX: y", "/v1/blobs/a?%",
  ])
  func aWrongTargetIs400(target: String) async throws {
    for method in ["GET", "PUT", "POST", "DELETE"] {
      #expect(try await server.send(method, target).status == 400, "\(method)")
    }
  }

  /// RFC 9112, 3.2.2: clients that are set up for a proxy send the whole address.
  @Test(arguments: ["http://localhost", "HTTP://localhost:8723", "https://127.0.0.1"])
  func aWholeAddressIsATarget(address: String) async throws {
    #expect(try await server.send("PUT", address + "/v1/blobs/a%2Fb", [:], .bytes(Data("x".utf8))).status == 201)
    #expect(try await server.get("a%2Fb").text == "x")
    #expect(try await server.send("GET", address + "/v1/blobs/a%2Fb").text == "x")
    #expect(try await server.send("GET", address + "?x").status == 404)
    #expect(try await server.send("GET", address).status == 404)
    // The host of the target counts, and not the field.
    #expect(try await server.send("GET", address + "/healthz", ["Host": "elsewhere.example"]).status == 200)
    #expect(try await server.send("GET", "http://elsewhere.example/healthz", ["Host": "localhost"]).status == 421)
    let fields: HeaderFields = ["Range": "bytes=0-0", "host": "localhost"]
    #expect(try await server.send("GET", address + "/v1/blobs/a%2Fb", fields).status == 206)
  }

  /// RFC 9110, 9.3.7.
  @Test func theServerAsAWholeTellsItsMethods() async throws {
    let answer = try await server.send("OPTIONS", "*")
    #expect(answer.status == 204)
    #expect(answer["Allow"]?.contains("PUT") == true)
    #expect(try await server.send("OPTIONS", "*", ["Host": "elsewhere.example"]).status == 421)
    var configuration = BlobResponder.Configuration()
    configuration.entranceToken = "0123456789ABCDEF"
    #expect(try await TestServer(configuration).send("OPTIONS", "*").status == 403)
    let directories = ServedDirectories([(name: "one", responder: server.responder)])
    #expect(await directories.respond(to: ServerRequest(method: "OPTIONS", target: "*")).status == 204)
    let whole = ServerRequest(method: "GET", target: "http://localhost/one/healthz")
    #expect(await directories.respond(to: whole).status == 200)
  }

  /// RFC 9110, 15.5.12: whether the body is empty must be said.
  @Test func aPutWithoutALengthIsRefused() async throws {
    for path in ["/v1/blobs/a", "/gradle/a", "/turbo/v8/artifacts/0a"] {
      #expect(try await server.send("PUT", path).status == 411)
      #expect(try await server.send("PUT", path, ["Content-Length": "0"]).status < 300)
    }
  }

  @Test(arguments: [10_000, 65_536]) func aLongKeyIsKept(byteCount: Int) async throws {
    let key = String(repeating: "k", count: byteCount)
    #expect(try await server.put(key, "x").status == 201)
    #expect(try await server.get(key).text == "x")
  }

  @Test func aKeyThatIsTooLongIsRefused() async throws {
    let target = "/v1/blobs/" + String(repeating: "k", count: 65_537)
    let put = try await server.send("PUT", target, [:], .bytes(Data("x".utf8)))
    #expect(put.status == 414)
    #expect(put.text.contains("65537 bytes"))
    for method in ["GET", "HEAD", "DELETE", "POST"] {
      #expect(try await server.send(method, target).status == 414, "\(method)")
    }
  }

  @Test(arguments: [
    "/", "/v1", "/v2/blobs/a", "/V1/blobs/a", "//v1/blobs/a", "/v1/./blobs/a", "/healthz/", "/favicon.ico",
  ])
  func anotherPathIs404(target: String) async throws {
    #expect(try await server.send("GET", target).status == 404)
  }

  @Test(arguments: [("PATCH", 405), ("TRACE", 405), ("CONNECT", 405), ("get", 501), ("BREW", 501)])
  func anotherMethodIsRefused(method: String, status: Int) async throws {
    let answer = try await server.send(method, "/v1/blobs/a")
    #expect(answer.status == status)
    #expect(answer["Allow"] == "GET, HEAD, PUT, DELETE, POST, OPTIONS")
    #expect(try await server.send("PUT", "/healthz").status == 405)
  }

  @Test func optionsTellsTheMethods() async throws {
    let answer = try await server.send("OPTIONS", "/v1/blobs/a")
    #expect(answer.status == 204)
    #expect(answer["Allow"] == "GET, HEAD, PUT, DELETE, POST, OPTIONS")
  }

  @Test func anAnswerToHeadHasNoBody() async throws {
    let answer = try await server.send("HEAD", "/v1/blobs/none")
    #expect(answer.status == 404)
    #expect(answer.payload.isEmpty)
    #expect(answer.response.body.byteCount == 22)
  }

  @Test func healthAndReadinessAreTold() async throws {
    #expect(try await server.send("GET", "/healthz").text == "ok\n")
    #expect(try await server.send("GET", "/readyz").text == "ready\n")
  }

  @Test func aServerForReadingChangesNothing() async throws {
    var reading = BlobResponder.Configuration()
    reading.isReadOnly = true
    let server = try TestServer(reading)
    try await server.cache.store(Data("x".utf8), for: "a")
    #expect(try await server.get("a").status == 200)
    #expect(try await server.put("a", "y").status == 403)
    #expect(try await server.send("DELETE", "/v1/blobs/a").status == 403)
    #expect(try await server.send("POST", "/v1/blobs/a?lock").status == 403)
    #expect(try await server.get("a").text == "x")
  }

  @Test func aClosedCacheIs503() async throws {
    try await server.cache.close()
    let answer = try await server.put("a", "x")
    #expect(answer.status == 503)
    #expect(answer["Retry-After"] == "1")
  }

  /// A directory that cannot be used is reported as an error of the server, without its path.
  @Test func aDirectoryThatIsNoneIs503() async throws {
    try Data("a file".utf8).write(to: URL(filePath: server.root.string))
    for answer in [try await server.put("a", "x"), try await server.get("a"), try await server.send("GET", "/readyz")] {
      #expect((500...507).contains(answer.status))
      #expect(!answer.text.contains(server.root.string))
    }
    #expect(try await server.send("GET", "/healthz").status == 200)
  }
}
