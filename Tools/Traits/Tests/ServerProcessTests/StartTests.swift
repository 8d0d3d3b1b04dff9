import Foundation
import Testing

/// What the program says at its start, and what it refuses.
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

  @Test func itIsReadOnlyIfTold() throws {
    let server = try ServerProcess(["--read-only"])
    let connection = try server.connect()
    try connection.send("PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
    #expect(try connection.answer().status == 403)
  }
}
