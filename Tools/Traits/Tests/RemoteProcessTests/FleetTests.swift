import Foundation
import Testing

/// Several machines as processes with separate directories, and the blobs that they share.
@Suite(.timeLimit(.minutes(10))) struct FleetTests {
  private let namespace = "fleet-\(UUID().uuidString)"

  /// A node loads another node's blob with the original expiry. After a removal, other nodes cannot fetch the blob.
  @Test(arguments: FleetStore.available) func nodesShareBlobs(_ store: FleetStore) async throws {
    let url = try await store.url(namespace)
    let (a, b, c) = (
      try await FleetNode(remote: url), try await FleetNode(remote: url), try await FleetNode(remote: url)
    )
    let key = "album%2F%25%20%C3%A4"
    #expect(try a.put(key, "hello", ["X-BlobCache-TTL": "3600", "Content-Type": "text/plain"]) == 201)
    let (here, there) = (try a.get(key), try b.get(key))
    for reply in [here, there] {
      #expect(reply.status == 200)
      #expect(reply.text == "hello")
      #expect(reply.fields["x-blobcache-ttl"] == "3600")
    }
    for name in ["last-modified", "etag", "content-type"] {
      #expect(here.fields[name] == there.fields[name], "\(name)")
    }
    #expect(here.fields["last-modified"] != nil)

    #expect(try a.send("DELETE", "/v1/blobs/\(key)").status == 204)
    #expect(try a.get(key).status == 404)
    try await eventually("the removal is there") { try await RemoteProgram.run("get", url, "album/% ä").status == 1 }
    #expect(try c.get(key).status == 404)
    // The node keeps its copy until the copy expires.
    #expect(try b.get(key).status == 200)
    for (node, counts) in [(a, "\"uploads\":1,\"removals\":1,"), (b, "\"hits\":1,"), (c, "\"misses\":1,")] {
      // A removal is counted when the engine has responded.
      try await eventually("the tier's counts are \(counts)") {
        let lines = try node.send("GET", "/status").text.split(separator: "\n")
        return lines.contains { $0.contains("\"type\":\"remote\"") && $0.contains(counts) }
      }
    }
    #expect(try b.send("GET", "/metrics").text.contains("blobcache_remote_hits_total"))
  }

  @Test(arguments: FleetStore.available) func aLargeBlobIsShared(_ store: FleetStore) async throws {
    let url = try await store.url(namespace)
    let (a, b) = (try await FleetNode(remote: url), try await FleetNode(remote: url))
    let payload = Records.bytes(5_000_000, seed: 3)
    #expect(try a.send("PUT", "/v1/blobs/large", [:], payload).status == 201)
    let head = try b.send("HEAD", "/v1/blobs/large")
    #expect(head.status == 200)
    #expect(head.fields["content-length"] == "5000000")
    #expect(try b.get("large").body == payload)
  }

  /// R1: an unreachable engine prevents neither the start of a server nor the response to a request.
  @Test func R1_aTierThatIsAwayIsNotInTheWay() async throws {
    let port = try EngineServer.freePorts(1)[0]
    let node = try await FleetNode(remote: "http://127.0.0.1:\(port)/v1/blobs", [])
    #expect(try node.put("here", "hello") == 201)
    #expect(try node.get("here").text == "hello")
    for number in 0..<6 { #expect(try node.get("none-\(number)").status == 404) }
    try await node.waitForLog("it is left alone for a while")
    // The breaker's pause may have ended in the meantime.
    try await eventually("it is left alone") {
      _ = try node.get("none-\(UUID().uuidString)")
      return try node.send("GET", "/status").text.contains("\"condition\":\"leftAlone\"")
    }

    let store = try await FleetNode(remote: nil, port: port)
    try await eventually("it is asked again") {
      try node.get("none-\(UUID().uuidString)").status == 404 && node.server.log.contains("answers again")
    }
    withExtendedLifetime(store) {}
  }

  @Test(arguments: ["readOnly", "writeOnly"]) func aModeIsThatOfTheOption(mode: String) async throws {
    let url = try await FleetStore.serve.url(namespace)
    let whole = try await FleetNode(remote: url)
    let node = try await FleetNode(remote: url, FleetNode.patient + ["--remote-mode", mode])
    #expect(try whole.put("theirs", "hello") == 201)
    #expect(try node.put("ours", "hello") == 201)
    #expect(try whole.get("ours").status == (mode == "readOnly" ? 404 : 200))
    #expect(try node.get("theirs").status == (mode == "readOnly" ? 200 : 404))
  }

  /// A copy that is older than the option's value is revalidated.
  @Test func aCopyIsAskedFor() async throws {
    let url = try await FleetStore.serve.url(namespace)
    let options = FleetNode.patient + ["--remote-revalidate", "1s"]
    let (a, b) = (try await FleetNode(remote: url, options), try await FleetNode(remote: url, options))
    #expect(try a.put("key", "one") == 201)
    #expect(try b.get("key").text == "one")
    #expect(try a.put("key", "another") == 204)
    try await eventually("the copy is replaced") { try b.get("key").text == "another" }
  }

  /// Machines receive announcements of changes by other machines, and drop their copies.
  @Test(.enabled(if: ValkeyProgram.redis.missing == nil, "needs redis-server: Tools/prerequisites"))
  func aCopyIsDroppedWhenAnotherMachineSaysSo() async throws {
    let url = try await FleetStore.redis.url(namespace)
    let options = FleetNode.patient + ["--remote-announce"]
    let (a, b) = (try await FleetNode(remote: url, options), try await FleetNode(remote: url, options))
    #expect(try a.put("key", "first") == 201)
    try await eventually("the blob is there") { try b.get("key").text == "first" }
    // The listener starts asynchronously, so it may miss the first announcements.
    try await eventually("the copy is replaced") {
      let text = UUID().uuidString
      #expect(try a.put("key", text) == 204)
      let end = ContinuousClock.now + .seconds(1)
      while ContinuousClock.now < end {
        if try b.get("key").text == text { return true }
        usleep(10_000)
      }
      return false
    }
  }

  /// Records without a valid seal are ignored.
  @Test func recordsAreSealed() async throws {
    let file = FileManager.default.temporaryDirectory.appending(path: "\(namespace).key")
    defer { try? FileManager.default.removeItem(at: file) }
    try Data("0123456789abcdef\n".utf8).write(to: file)
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
    let url = try await FleetStore.serve.url(namespace)
    let node = try await FleetNode(remote: url, FleetNode.patient + ["--remote-seal-key", file.path])
    #expect(try node.put("key", "hello") == 201)
    #expect(try await RemoteProgram.run("get", url, "key").status == 2)
    let sealed = try await RemoteProgram.run("get", url, "key", "--seal-key", file.path)
    #expect(String(decoding: sealed.output, as: UTF8.self) == "hello")
    #expect(try await RemoteProgram.run("put", url, "other", file.path).status == 0)
    #expect(try node.get("other").status == 404)
  }

  /// Each directory of a configuration file has a separate tier, which a reload does not change.
  @Test func directoriesOfAFileHaveTheirTiers() async throws {
    let url = try await FleetStore.serve.url(namespace)
    let node = try await FleetNode { directory in
      """
      { "directories": {
        "\(directory.path)/a": { "remote": "\(url)", "remoteWriting": "through", "remoteTimeout": "5m" },
        "\(directory.path)/b": { "remote": "\(url)", "remoteMode": "readOnly", "remoteTimeout": "5m" },
        "\(directory.path)/c": {} } }
      """
    }
    #expect(try node.send("PUT", "/a/v1/blobs/key", [:], Data("hello".utf8)).status == 201)
    node.server.send(SIGHUP)
    try await node.waitForLog("were read again")
    #expect(try node.send("GET", "/b/v1/blobs/key").text == "hello")
    #expect(try node.send("GET", "/c/v1/blobs/key").status == 404)
    #expect(try !node.send("GET", "/c/status").text.contains("remote"))
  }

  @Test(
    arguments: [
      (["--remote", "ftp://host/x"], "--remote: URL: there is no engine for ftp://"),
      (["--remote", "s3://bucket/n?regoin=x"], "--remote: regoin: there is no such option"),
      (["--remote", "https://user:S3cret@host/x"], "--remote: URL: it has a password"),
      (["--remote", "http://host.example/x"], "--remote:"),
      (["--remote", "s3://bucket", "--remote-mode", "both"], "it must be readWrite, readOnly or writeOnly"),
      (["--remote-mode", "readOnly"], "--remote: is missing"),
      (["--remote", "s3://bucket", "--remote-revalidate", "0"], "--remote-revalidate: it must be"),
      (["--remote", "s3://bucket", "--remote-rewrite", "soon"], "--remote-rewrite: it must be"),
      (["--remote", "s3://bucket", "--remote-flush", "0"], "--remote-flush: it must be"),
    ])
  func aMistakeIsRefused(options: [String], reason: String) async throws {
    let start = try await Programs.run([FleetNode.program, "/nonexistent/cache", "--listen", "127.0.0.1:0"] + options)
    #expect(start.status == 64)
    #expect(start.errors.contains(reason), "\(start.errors)")
    #expect(!start.errors.contains("S3cret"))
  }

  @Test(
    arguments: [
      (#""remote": "ftp://x""#, "remote: URL: there is no engine for ftp://"),
      (#""remote": "https://user:S3cret@host/x""#, "remote: URL: it has a password"),
      (#""remote": "s3://bucket", "remoteMode": "both""#, "remoteMode: it must be readWrite"),
      (#""remoteWriting": "through""#, "remote: is missing"),
      (#""remote": "s3://bucket", "remoteAnnounce": true"#, "remoteAnnounce: s3://bucket carries no announcements"),
      (#""remote": "s3://bucket", "remoteFlush": "soon""#, "remoteFlush: it must be"),
      (#""remote": "s3://bucket", "remoteSealKey": "/nonexistent/key""#, "remoteSealKey: /nonexistent/key"),
      (#""remote": []"#, "remote: must be a text"),
    ])
  func aMistakeInAFileIsRefused(fields: String, reason: String) async throws {
    let file = FileManager.default.temporaryDirectory.appending(path: "\(namespace).json")
    defer { try? FileManager.default.removeItem(at: file) }
    try Data("{ \"directories\": { \"/nonexistent/one\": { \(fields) } } }".utf8).write(to: file)
    let start = try await Programs.run([FleetNode.program, "--config", file.path, "--listen", "127.0.0.1:0"])
    #expect(start.status == 64)
    #expect(start.errors.contains(reason), "\(start.errors)")
    #expect(start.errors.contains("/nonexistent/one"))
    #expect(!start.errors.contains("S3cret"))
  }
}
