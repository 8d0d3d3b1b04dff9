import BlobCache
import BlobCacheServer
import BlobRecord
import Foundation
import TestSupport
import Testing

/// The API that Turborepo describes: https://turborepo.com/docs/openapi
@Suite struct TurboTests {
  let server: TestServer

  init() throws { server = try TestServer() }

  private static let base = "/turbo/v8/artifacts"

  private func put(_ hash: String, _ fields: HeaderFields = [:]) async throws -> Answer {
    try await server.send("PUT", "\(Self.base)/\(hash)?teamId=team_a", fields, .bytes(Data("tarball".utf8)))
  }

  private func post(_ path: String, _ text: String) async throws -> Answer {
    try await server.send("POST", Self.base + path, ["Content-Type": "application/json"], .bytes(Data(text.utf8)))
  }

  @Test func cachingIsEnabled() async throws {
    let answer = try await server.send("GET", Self.base + "/status?teamId=team_a")
    #expect(answer.status == 200)
    #expect(answer["Content-Type"] == "application/json")
    #expect(answer.text == "{\"status\":\"enabled\"}")
  }

  @Test(arguments: [nil, "YWJj+/==", "YWJj-_", String(repeating: "A", count: 600)])
  func whatBelongsToAnArtifactComesBack(tag: String?) async throws {
    var fields: HeaderFields = [
      "Content-Type": "application/octet-stream", "x-artifact-duration": "400",
      "X-Artifact-Client-CI": "github-actions",
    ]
    if let tag { fields.append("x-artifact-tag", tag) }
    let stored = try await put("0a", fields)
    #expect(stored.status == 202)
    #expect(stored.text == "{\"urls\":[]}")
    for method in ["GET", "HEAD"] {
      let answer = try await server.send(method, Self.base + "/0a?teamId=team_a")
      #expect(answer.status == 200)
      #expect(answer["x-artifact-duration"] == "400")
      #expect(answer["x-artifact-tag"] == tag)
      #expect(answer.response.body.byteCount == 7)
    }
  }

  @Test func anArtifactMayHaveNothingBesideIt() async throws {
    _ = try await put("0a")
    let answer = try await server.send("GET", Self.base + "/0a?teamId=team_a")
    #expect(answer["x-artifact-duration"] == nil)
    #expect(answer["x-artifact-tag"] == nil)
  }

  @Test(arguments: [
    ("x-artifact-duration", "-1"), ("x-artifact-duration", "1.5"), ("x-artifact-duration", "soon"),
    ("x-artifact-tag", "a\"; duration=1"), ("x-artifact-tag", "a b"), ("x-artifact-tag", "a\r\nb"),
    ("x-artifact-tag", String(repeating: "A", count: 601)),
  ])
  func aWrongFieldIs400(name: String, value: String) async throws {
    var fields = HeaderFields()
    fields.append(name, value)
    #expect(try await put("0a", fields).status == 400)
    #expect(try await server.send("GET", Self.base + "/0a?teamId=team_a").status == 404)
  }

  @Test func teamsDoNotSeeEachOthersArtifacts() async throws {
    _ = try await put("0a")
    for query in ["", "?teamId=team_b", "?slug=a", "?teamId="] {
      #expect(try await server.send("GET", Self.base + "/0a" + query).status == 404)
    }
    for team in ["..", "a/b", "a%2Fb", "%20", String(repeating: "a", count: 300)] {
      #expect(try await server.send("GET", Self.base + "/0a?teamId=" + team).status == 400)
    }
  }

  @Test func manyAreAskedForAtOnce() async throws {
    _ = try await put("0a", ["x-artifact-duration": "400", "x-artifact-tag": "YWJj"])
    _ = try await put("0b")
    let answer = try await post("?teamId=team_a", "{\"hashes\":[\"0a\",\"0b\",\"0c\"]}")
    #expect(answer.status == 200)
    #expect(
      answer.text
        == "{\"0a\":{\"size\":7,\"tag\":\"YWJj\",\"taskDurationMs\":400},\"0b\":{\"size\":7,\"taskDurationMs\":0},"
        + "\"0c\":null}")
    #expect(try await post("", "{\"hashes\":[]}").text == "{}")
  }

  @Test(arguments: ["", "{", "[]", "{\"hashes\":[1]}", "{\"hashes\":[\"x\"]}", "{\"hashes\":[\"..\"]}"])
  func aQuestionThatIsNoneIs400(text: String) async throws {
    #expect(try await post("", text).status == 400)
  }

  @Test func questionsAreBounded() async throws {
    let hashes = (0..<1001).map { "\"\($0)\"" }.joined(separator: ",")
    #expect(try await post("", "{\"hashes\":[\(hashes)]}").status == 400)
    let long = String(repeating: " ", count: (1 << 20) + 1)
    for path in ["", "/events"] { #expect(try await post(path, long).status == 413) }
  }

  @Test func eventsAreTaken() async throws {
    let event = "[{\"sessionId\":\"x\",\"source\":\"REMOTE\",\"event\":\"HIT\",\"hash\":\"0a\",\"duration\":400}]"
    #expect(try await post("/events?teamId=team_a", event).status == 200)
  }

  /// The client of Turborepo shows the message of a refusal in this form.
  @Test func aRefusalIsJSON() async throws {
    let answer = try await server.send("GET", Self.base + "/0a")
    #expect(answer.status == 404)
    #expect(answer["Content-Type"] == "application/json")
    let (code, message) = ("\"code\":\"not_found\"", "\"message\":\"there is no such blob\"")
    #expect(answer.text == "{\(code),\"error\":{\(code),\(message)},\(message)}")
  }

  /// The form of a refusal does not depend on how far the request came: not even its host or its target has to be valid.
  @Test(
    arguments: [
      ("GET", "/turbo/v8/artifacts/0a", ["Authorization": "Bearer wrong"], 401),
      ("GET", "/turbo/v8/artifacts/0a", ["Host": "elsewhere.example"], 421),
      ("PUT", "/turbo/v8/artifacts/0a", ["Origin": "https://elsewhere.example"], 403),
      ("GET", "/turbo/v8/artifacts/..", [:], 400), ("GET", "/turbo/v8/nothing", [:], 404),
      ("DELETE", "/turbo/v8/artifacts/0a", [:], 405),
    ] as [(String, String, HeaderFields, Int)])
  func eachRefusalIsJSON(method: String, target: String, fields: HeaderFields, status: Int) async throws {
    var answering = BlobResponder.Configuration()
    answering.access = AccessControl(tokens: [AccessToken(name: "any", secret: nil, scopes: [.read, .write])])
    let answer = try await TestServer(answering).send(method, target, fields)
    #expect(answer.status == status)
    #expect(answer["Content-Type"] == "application/json")
    #expect(answer.text.hasPrefix("{\"code\":"))
    // The other routes have lines of text.
    let text = try await TestServer(answering).send(method, "/gradle/..", fields)
    #expect(text["Content-Type"] == "text/plain; charset=utf-8")
  }

  /// A record that cannot be read is absent, and the query answers for the others.
  @Test func aRecordThatCannotBeReadFailsNoQuery() async throws {
    let server = try TestServer {
      $0.store.packing = .off
      $0.memory = nil
    }
    for hash in ["0a", "0b"] { try await server.cache.store(Data("tarball".utf8), for: BlobKey("turbo/" + hash)) }
    try server.overwrite("turbo/0b", at: 20, with: [1, 2, 3])
    let writer = try await server.cache.openWriter(for: "turbo/0c", visibility: .whileWriting)
    try await writer.append(Data("tar".utf8))
    let foreign = try server.cache.filePath(for: "turbo/0d").string
    try FileManager.default.createDirectory(atPath: foreign, withIntermediateDirectories: true)
    let query = "{\"hashes\":[\"0a\",\"0b\",\"0c\",\"0d\"]}"
    let answer = try await server.send("POST", Self.base, [:], .bytes(Data(query.utf8)))
    #expect(answer.status == 200)
    let found = "{\"size\":7,\"taskDurationMs\":0}"
    #expect(answer.text == "{\"0a\":\(found),\"0b\":null,\"0c\":null,\"0d\":null}")
    try await writer.discard()
  }

  /// With `--preflight`, the client sends this request before each other one, and sends its token only if allowed.
  @Test func thePreflightIsAnswered() async throws {
    let answer = try await server.send(
      "OPTIONS", Self.base + "/0a", ["Access-Control-Request-Method": "PUT", "Authorization": "Bearer x"])
    #expect(answer.status == 204)
    #expect(answer["Access-Control-Allow-Headers"]?.contains("Authorization") == true)
    #expect(answer["Access-Control-Allow-Origin"] == nil)
  }

  @Test func aServerForReadingAnswersQuestions() async throws {
    var answering = BlobResponder.Configuration()
    answering.isReadOnly = true
    let server = try TestServer(answering)
    let query = try await server.send("POST", Self.base, [:], .bytes(Data("{\"hashes\":[\"0a\"]}".utf8)))
    #expect(query.status == 200)
    #expect(query.text == "{\"0a\":null}")
    #expect(try await server.send("POST", Self.base + "/events", [:], .bytes(Data("[]".utf8))).status == 200)
    #expect(try await server.send("PUT", Self.base + "/0a", [:], .bytes(Data())).status == 403)
  }
}
