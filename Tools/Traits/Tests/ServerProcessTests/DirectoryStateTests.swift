import BlobRecord
import BlobStore
import Foundation
import SystemPackage
import Testing

/// The responses of a server on directories in an unusual state, in which the server keeps running.
@Suite(.serialized, .timeLimit(.minutes(5))) struct DirectoryStateTests {
  private static let isSuperuser = getuid() == 0

  private func send(_ server: ServerProcess, _ line: String, _ body: Data = Data()) throws -> Connection.Answer {
    let connection = try server.connect()
    try connection.send("\(line) HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(body.count)\r\n\r\n")
    // The server may refuse the request before it has read the body.
    try? connection.send(body)
    return try connection.answer()
  }

  private func end(_ server: ServerProcess) throws {
    #expect(try send(server, "GET /healthz").status == 200)
    server.send(SIGTERM)
    #expect(server.status() == 0)
  }

  @Test func aMissingDirectoryIsMadeByTheFirstBlob() throws {
    // With memory, the server would serve blobs of a removed directory for some time.
    let server = try ServerProcess(["--memory", "0"])
    #expect(try send(server, "GET /v1/blobs/a").status == 404)
    #expect(try send(server, "GET /v1/blobs").status == 200)
    #expect(try send(server, "DELETE /v1/blobs/a").status == 404)
    #expect(!FileManager.default.fileExists(atPath: server.root.path))
    #expect(try send(server, "PUT /v1/blobs/a", Data("x".utf8)).status == 201)
    // The server notices within a second that its directory is removed, and creates it again with the next blob.
    try FileManager.default.removeItem(at: server.root)
    let end = ContinuousClock.now + .seconds(60)
    while try send(server, "GET /v1/blobs/a").status == 200, ContinuousClock.now < end { usleep(10_000) }
    #expect(try send(server, "GET /v1/blobs/a").status == 404)
    #expect(try send(server, "PUT /v1/blobs/a", Data("x".utf8)).status == 201)
    #expect(try send(server, "GET /v1/blobs/a").text == "x")
    #expect(FileManager.default.fileExists(atPath: server.root.path))
    try self.end(server)
  }

  @Test func aFileInItsPlaceIsRefusedAtTheStart() throws {
    let start = try run([ServerProcess.executable.path, "/etc/passwd", "--listen", "127.0.0.1:0"])
    #expect(start.status == 2)
    #expect(start.errors.contains("/etc/passwd"))
    #expect(start.errors.contains("Not a directory"))
  }

  /// Foreign files are not changed, and are not blobs.
  @Test func foreignFilesStay() throws {
    let server = try ServerProcess()
    try FileManager.default.createDirectory(at: server.root, withIntermediateDirectories: true)
    let file = server.root.appending(path: "notes.txt")
    try Data("notes".utf8).write(to: file)
    #expect(try send(server, "PUT /v1/blobs/a", Data("x".utf8)).status == 201)
    #expect(try send(server, "GET /v1/blobs/a").text == "x")
    #expect(try Data(contentsOf: file) == Data("notes".utf8))
    try end(server)
  }

  /// The blobs are stored in a pack and in a file.
  @Test(arguments: [1000, 10_000]) func aDamagedBlobIsSaidAndReplaced(byteCount: Int) throws {
    let server = try ServerProcess(["--memory", "0"])
    #expect(try send(server, "PUT /v1/blobs/a", Data(count: byteCount)).status == 201)
    #expect(try server.damageRecords(prefix: "a") == 1)
    let answer = try send(server, "GET /v1/blobs/a")
    #expect(answer.status == 500)
    #expect(!answer.text.contains(server.root.path))
    #expect(try send(server, "PUT /v1/blobs/a", Data("whole".utf8)).status < 300)
    #expect(try send(server, "GET /v1/blobs/a").text == "whole")
    try end(server)
  }

  /// The server has no write permission for the directory.
  @Test(.enabled(if: isSuperuser, "only the superuser can be two users"))
  func aDirectoryThatMayNotBeWrittenToIsNotChanged() throws {
    let server = try ServerProcess(user: 65534)
    try server.store().store(Data("x".utf8), for: "a")
    _ = try run(["/bin/chown", "-R", "0", server.root.path])
    let answer = try send(server, "PUT /v1/blobs/b", Data("x".utf8))
    #expect(answer.status == 503)
    #expect(answer.text.contains("Permission denied"))
    #expect(!answer.text.contains(server.root.path))
    #expect(try send(server, "DELETE /v1/blobs/a").status == 503)
    #expect(try server.store().contains("a"))
    try end(server)
  }

  /// All blobs are locked, so stores fail at the hard limit, which is 16 MiB above the size limit.
  @Test func aLimitThatNothingMakesRoomBelowIs507() throws {
    let server = try ServerProcess(["--size-limit", "1MiB"])
    func put(_ key: Int) throws -> Int {
      let connection = try server.connect()
      try connection.send(
        "PUT /v1/blobs/\(key) HTTP/1.1\r\nHost: localhost\r\nX-BlobCache-Locks: one\r\nContent-Length: 1000000\r\n\r\n")
      try connection.send(Data(count: 1_000_000))
      return try connection.answer().status
    }
    let statuses = try (0..<24).map(put)
    #expect(statuses.first == 201)
    #expect(statuses.last == 507)
    for key in 0..<24 where statuses[key] == 201 { #expect(try send(server, "DELETE /v1/blobs/\(key)").status == 204) }
    #expect(try put(0) == 201)
    try end(server)
  }

  @Test(.enabled(if: isSuperuser, "only the superuser can mount")) func aFullVolumeIs507() throws {
    let server = try ServerProcess()
    try FileManager.default.createDirectory(at: server.root, withIntermediateDirectories: true)
    // Some containers do not permit mounts.
    guard try run(["/bin/mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", server.root.path]).status == 0 else {
      return
    }
    defer { _ = try? run(["/bin/umount", "-l", server.root.path]) }
    #expect(try send(server, "PUT /v1/blobs/a", Data("x".utf8)).status == 201)
    for count in [200_000, 1_000_000] {
      let answer = try send(server, "PUT /v1/blobs/b", Data(count: count))
      #expect(answer.status == 507)
      #expect(!answer.text.contains(server.root.path))
    }
    #expect(try send(server, "GET /v1/blobs/a").text == "x")
    #expect(try send(server, "PUT /v1/blobs/b", Data("y".utf8)).status == 201)
    #expect(server.temporaryFiles() == [])
    try end(server)
  }
}
