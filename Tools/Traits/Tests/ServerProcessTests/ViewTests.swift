import Foundation
import Testing

/// `--view`: a server for one browser.
@Suite(.serialized, .timeLimit(.minutes(5))) struct ViewTests {
  #if os(Linux)
    /// A script replaces the browser, and reports the URL to open.
    @Test func theBrowserIsOpenedAndNobodyElseGetsIn() throws {
      let directory = FileManager.default.temporaryDirectory.appending(path: "blobcache-view-\(UUID().uuidString)")
      try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
      defer { try? FileManager.default.removeItem(at: directory) }
      let opener = directory.appending(path: "xdg-open")
      let opened = directory.appending(path: "opened")
      try Data("#!/bin/sh\nprintf %s \"$1\" >\"$OPENED.part\" && mv \"$OPENED.part\" \"$OPENED\"\n".utf8).write(
        to: opener)
      try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: opener.path)
      let process = Process()
      process.executableURL = ServerProcess.executable
      process.arguments = ["--view", directory.appending(path: "cache").path, "--quiet"]
      process.environment = [
        "PATH": "\(directory.path):/usr/bin:/bin", "DISPLAY": ":0", "OPENED": opened.path,
      ]
      let output = Pipe()
      process.standardOutput = output
      try process.run()
      defer { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }
      var line = Data()
      while line.last != UInt8(ascii: "\n") {
        guard let byte = try output.fileHandleForReading.read(upToCount: 1), !byte.isEmpty else { break }
        line.append(byte)
      }
      let text = String(decoding: line, as: UTF8.self)
      let match = try #require(
        text.firstMatch(of: /^viewing .*\/cache at (http:\/\/127\.0\.0\.1:(\d+)(\/ui\/enter\?token=[0-9A-F]{32}))\n$/))
      let port = try #require(UInt16(match.2))
      let deadline = ContinuousClock.now + .seconds(300)
      while !FileManager.default.fileExists(atPath: opened.path) {
        try #require(.now < deadline, "the browser was never opened")
        usleep(10_000)
      }
      #expect(try String(contentsOf: opened, encoding: .utf8) == String(match.1))

      func get(_ target: Substring, cookie: String? = nil) throws -> Connection.Answer {
        let connection = try Connection(port: port)
        let field = cookie.map { "Cookie: \($0)\r\n" } ?? ""
        try connection.send("GET \(target) HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\n\(field)\r\n")
        return try connection.answer()
      }
      #expect(try get("/ui/").status == 403)
      let entered = try get(match.3)
      #expect(entered.status == 303)
      let cookie = try #require(entered.fields["set-cookie"]?.prefix { $0 != ";" })
      #expect(try get("/ui/", cookie: String(cookie)).status == 200)
      #expect(try get("/v1/blobs", cookie: String(cookie)).status == 200)
      #expect(try get("/v1/blobs").status == 403)
      #expect(try get(match.3).status == 403)
      process.terminate()
      process.waitUntilExit()
      #expect(process.terminationStatus == 0)
    }
  #endif

  @Test(arguments: [["--listen", "0.0.0.0:0", "--insecure"], ["--listen", "unix:/nonexistent/socket"]])
  func aBrowserOfThisMachineIsMeant(options: [String]) throws {
    let start = try run([ServerProcess.executable.path, "/nonexistent/cache", "--view"] + options)
    #expect(start.status == 64)
    #expect(start.errors.contains("--view is for a browser of this machine"))
  }

  @Test func thePagesAreThereWithoutAView() throws {
    let server = try ServerProcess()
    let connection = try server.connect()
    for (target, status) in [("/ui", 303), ("/ui/", 200), ("/ui/records", 200), ("/ui/viewer.js", 200), ("/ui/x", 404)]
    {
      try connection.send("GET \(target) HTTP/1.1\r\nHost: localhost\r\n\r\n")
      #expect(try connection.answer().status == status)
    }
  }
}
