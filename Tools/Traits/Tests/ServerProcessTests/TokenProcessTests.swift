import Foundation
import Testing

/// Tokens and users as options of the program.
@Suite(.serialized, .timeLimit(.minutes(5))) struct TokenProcessTests {
  private let directory: URL
  private let file: String

  init() throws {
    directory = FileManager.default.temporaryDirectory.appending(path: "t\(UInt32.random(in: 0 ... .max))")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    file = directory.appending(path: "tokens").path
  }

  private func makeToken(_ arguments: String...) throws -> (secret: String, line: String) {
    let made = try run([ServerProcess.executable.path, "token"] + arguments)
    #expect(made.status == 0)
    let lines = made.output.split(separator: "\n").map(String.init)
    #expect(lines.count == 2)
    return (lines[0], lines[1])
  }

  private func write(_ lines: String..., mode: Int = 0o600) throws {
    try Data(lines.joined(separator: "\n").utf8).write(to: URL(filePath: file))
    try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: file)
  }

  private func status(_ server: ServerProcess, _ line: String, _ token: String? = nil) throws -> Int {
    let connection = try server.connect()
    let field = token.map { "Authorization: Bearer \($0)\r\n" } ?? ""
    try connection.send("\(line) HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\(field)\r\n")
    return try connection.answer().status
  }

  @Test func tokensAreAskedForAndReadAgain() throws {
    defer { try? FileManager.default.removeItem(at: directory) }
    let reader = try makeToken("reader")
    let writer = try makeToken("writer", "--scopes", "read,write", "--key-prefix", "a b/")
    #expect(writer.line.hasSuffix(" read,write a%20b/"))
    try write(reader.line, writer.line)
    let server = try ServerProcess(["--tokens", file])
    #expect(try status(server, "PUT /v1/blobs/a%20b/c") == 401)
    #expect(try status(server, "PUT /v1/blobs/a%20b/c", reader.secret) == 403)
    #expect(try status(server, "PUT /v1/blobs/a", writer.secret) == 403)
    #expect(try status(server, "PUT /v1/blobs/a%20b/c", writer.secret) == 201)
    #expect(try status(server, "GET /v1/blobs/a%20b/c", reader.secret) == 200)
    #expect(try status(server, "GET /healthz") == 200)

    try write(writer.line)
    server.send(SIGHUP)
    try server.waitForError("were read again")
    #expect(try status(server, "GET /v1/blobs/a%20b/c", reader.secret) == 401)
    try write(reader.line, mode: 0o644)
    server.send(SIGHUP)
    try server.waitForError("stays as it was: \(file): other users may read it; chmod o-r")
    #expect(try status(server, "GET /v1/blobs/a%20b/c", writer.secret) == 200)
    #expect(try status(server, "GET /v1/blobs/a%20b/c", reader.secret) == 401)
  }

  @Test func aFileThatOthersReadIsRefused() throws {
    defer { try? FileManager.default.removeItem(at: directory) }
    try write("anyone - read", mode: 0o644)
    let start = try run([ServerProcess.executable.path, "/nonexistent/cache", "--tokens", file])
    #expect(start.status == 2)
    #expect(start.errors == "blobcache: \(file): other users may read it; chmod o-r \(file) changes that\n")
  }

  @Test(arguments: [["a b"], ["#a"], [""], ["a", "--scopes", "all"], ["a", "--scopes", ""], []])
  func aTokenNeedsANameAndScopes(arguments: [String]) throws {
    #expect(try run([ServerProcess.executable.path, "token"] + arguments).status == 64)
  }

  /// The test runs as the superuser, and the server as another user.
  @Test(.enabled(if: getuid() == 0, "only the superuser can be two users"))
  func aSocketIsForThoseWhoAreNamed() throws {
    defer { try? FileManager.default.removeItem(at: directory) }
    for (users, status) in [
      ([], 200), (["--allow-uid", "12345"], 403), (["--allow-uid", "12345", "--allow-uid", "0"], 200),
    ] {
      let socket = directory.appending(path: "socket").path
      try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: directory.path)
      let server = try ServerProcess(users, listen: "unix:\(socket)", user: 65534)
      let attributes = try FileManager.default.attributesOfItem(atPath: socket)
      #expect(attributes[.posixPermissions] as? Int == (users.isEmpty ? 0o600 : 0o666))
      let connection = try Connection(socket: socket)
      try connection.send("GET /v1/blobs HTTP/1.1\r\nHost: any\r\n\r\n")
      #expect(try connection.answer().status == status)
      server.send(SIGTERM)
      #expect(server.status() == 0)
    }
  }

  @Test func usersAreForSocketsAlone() throws {
    defer { try? FileManager.default.removeItem(at: directory) }
    let start = try run([ServerProcess.executable.path, "/nonexistent/cache", "--allow-uid", "0"])
    #expect(start.status == 64)
    #expect(start.errors.contains("unix:PATH"))
  }
}
