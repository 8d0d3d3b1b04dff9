import Foundation
import Testing

/// The messages and errors of the program at its start.
@Suite(.serialized, .timeLimit(.minutes(5))) struct StartTests {
  @Test func aPortInUseIsSaid() throws {
    let first = try ServerProcess()
    let second = try run([ServerProcess.executable.path, first.root.path, "--listen", "127.0.0.1:\(first.port)"])
    #expect(second.status == 2)
    #expect(
      second.errors
        == "blobcache: 127.0.0.1:\(first.port): cannot listen: Address already in use; another program listens there, "
        + "so choose another by --listen\n")
  }

  @Test(arguments: [["--listen", "0.0.0.0:0"], ["--listen", "[::]:0"], ["--listen", "example.com:0"]])
  func anAddressThatOthersReachMustBeMeant(options: [String]) throws {
    let start = try run([ServerProcess.executable.path, "/nonexistent/cache"] + options)
    #expect(start.status == 64)
    #expect(start.errors.contains("--insecure"))
  }

  @Test(arguments: ["", "8723", "localhost", "localhost:", ":1", "localhost:99999", "::1:80", "unix:", "localhost:x"])
  func whatIsNoAddressIsWrongUsage(address: String) throws {
    let start = try run([ServerProcess.executable.path, "cache", "--listen", address])
    #expect(start.status == 64)
    #expect(start.errors.contains("HOST:PORT"))
  }

  @Test func aSocketIsNotTakenFromAServerThatAnswers() throws {
    let directory = FileManager.default.temporaryDirectory.appending(path: "s\(UInt32.random(in: 0 ... .max))")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: directory) }
    let socket = directory.appending(path: "socket").path
    let first = try ServerProcess(listen: "unix:\(socket)")
    let attributes = try FileManager.default.attributesOfItem(atPath: socket)
    #expect(attributes[.posixPermissions] as? Int == 0o600)
    let command = [ServerProcess.executable.path, first.root.path, "--listen", "unix:\(socket)"]
    let second = try run(command)
    #expect(second.status == 2)
    #expect(second.errors.hasPrefix("blobcache: unix:\(socket): cannot listen: Address already in use"))
    // The socket file of a killed server does not prevent a start.
    first.kill()
    let third = try ServerProcess(listen: "unix:\(socket)")
    third.send(SIGTERM)
    #expect(third.status() == 0)
  }

  @Test func aPathThatIsTooLongForASocketIsSaid() throws {
    let start = try run([
      ServerProcess.executable.path, "/nonexistent/cache", "--listen",
      "unix:/tmp/" + String(repeating: "x", count: 200),
    ])
    #expect(start.status == 2)
    #expect(start.errors.contains("at most"))
    #expect(start.errors.contains("205"))
  }

  @Test func anotherNameIsAnsweredIfTold() throws {
    let server = try ServerProcess(["--host", "cache.example"])
    for (host, status) in [("cache.example", 200), ("example.com", 421), ("10.0.0.1", 200)] {
      let connection = try server.connect()
      try connection.send("GET /healthz HTTP/1.1\r\nHost: \(host)\r\n\r\n")
      #expect(try connection.answer().status == status)
    }
  }

  @Test func itIsReadOnlyIfTold() throws {
    let server = try ServerProcess(["--read-only"])
    let connection = try server.connect()
    try connection.send("PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
    #expect(try connection.answer().status == 403)
  }
}
