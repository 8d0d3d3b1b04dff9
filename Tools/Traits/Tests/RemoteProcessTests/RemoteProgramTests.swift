import Foundation
import Testing

enum RemoteProgram {
  static var path: String { Bundle.main.bundleURL.appending(path: "blobcache-remote").path }

  static func run(_ arguments: String...) async throws -> (status: Int32, output: Data, errors: String) {
    try await Programs.run(
      [path] + arguments, environment: ["AWS_ACCESS_KEY_ID": "AKTEST", "AWS_SECRET_ACCESS_KEY": "SKTEST"])
  }
}

@Suite(.timeLimit(.minutes(10))) struct RemoteProgramTests {
  private let namespace = "tool-\(UUID().uuidString)"
  private let directory = FileManager.default.temporaryDirectory.appending(path: "remote-\(UUID().uuidString)")

  private static func text(_ bytes: Data) -> String { String(decoding: bytes, as: UTF8.self) }

  private func with(_ body: (_ file: (String) -> String) async throws -> Void) async throws {
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: directory) }
    try await body { directory.appending(path: $0).path }
  }

  @Test(arguments: FleetStore.available) func checkTellsWhatAnEngineCanDo(_ store: FleetStore) async throws {
    let url = try await store.url(namespace)
    let check = try await RemoteProgram.run("check", url)
    #expect(check.status == 0, "\(check.errors)")
    #expect(Self.text(check.output).contains(": answers\n"))
    let json = try await RemoteProgram.run("check", url, "--json")
    let object = try #require(try JSONSerialization.jsonObject(with: json.output) as? [String: Any])
    #expect(object["type"] as? String == "remoteCheck")
    #expect(object["answers"] as? Bool == true)
    #expect(object["conditionalPut"] as? Bool == true)
    #expect(object["lists"] as? Bool == true)
    #expect(object["notes"] is [String])
    // The check leaves no objects.
    #expect(try await RemoteProgram.run("list", url, "--names").output.isEmpty)
  }

  @Test func checkNamesWhatIsWrong() async throws {
    let port = try EngineServer.freePorts(1)[0]
    let url = "http://127.0.0.1:\(port)/v1/blobs"
    let check = try await RemoteProgram.run("check", url)
    #expect(check.status == 1)
    #expect(check.errors.contains("127.0.0.1:\(port)"), "\(check.errors)")
    let json = try await RemoteProgram.run("check", url, "--json")
    #expect(json.status == 1)
    #expect(Self.text(json.output).contains("\"answers\":false,\"message\":"))
  }

  @Test(.enabled(if: SeaweedFS.isThere, "needs SeaweedFS: Tools/prerequisites")) func aWrongKeyIsNamed() async throws {
    let url = "s3://cache/x?endpoint=http://127.0.0.1:\(try await SeaweedFS.shared.value.port)"
    let check = try await Programs.run(
      [RemoteProgram.path, "check", url],
      environment: ["AWS_ACCESS_KEY_ID": "AKTEST", "AWS_SECRET_ACCESS_KEY": "S3cret"])
    #expect(check.status == 1)
    #expect(check.errors.contains("secret"), "\(check.errors)")
    #expect(!check.errors.contains("S3cret"))
  }

  @Test(arguments: FleetStore.available, ["encoded", "sha256"])
  func blobsArePutListedGotAndRemoved(_ store: FleetStore, naming: String) async throws {
    try await with { file in
      let url = try await store.url(namespace) + "&naming=\(naming)"
      try Data("hello".utf8).write(to: URL(filePath: file("in")))
      #expect(try await RemoteProgram.run("put", url, "album/1", file("in"), "--ttl", "1h").status == 0)
      #expect(try await RemoteProgram.run("put", url, "other", file("in")).status == 0)

      let got = try await RemoteProgram.run("get", url, "album/1")
      #expect(got.status == 0)
      #expect(Self.text(got.output) == "hello")
      #expect(try await RemoteProgram.run("get", url, "album/1", "-o", file("out")).status == 0)
      #expect(try Data(contentsOf: URL(filePath: file("out"))) == Data("hello".utf8))
      let record = try await RemoteProgram.run("get", url, "album/1", "--record")
      #expect(record.output.prefix(4) == Data("SPTF".utf8))

      let list = try await RemoteProgram.run("list", url, "--json")
      let lines = Self.text(list.output).split(separator: "\n")
      #expect(lines.count == 2, "\(list)")
      #expect(lines.allSatisfy { $0.contains("\"payloadSize\":5") })
      #expect(lines.count { $0.contains("\"ttl\":3600") } == 1)
      let some = try await RemoteProgram.run("list", url, "--prefix", "album/", "--names")
      #expect(Self.text(some.output) == (naming == "encoded" ? "album/1\n" : ""))
      let table = try await RemoteProgram.run("list", url, "--limit", "1")
      #expect(Self.text(table.output).split(separator: "\n").count == 2)

      let node = try await FleetNode(remote: url)
      #expect(try node.get("album%2F1").text == "hello")
      #expect(try node.get("album%2F1").fields["x-blobcache-ttl"] == "3600")

      #expect(try await RemoteProgram.run("remove", url, "album/1").status == 0)
      let absent = try await RemoteProgram.run("get", url, "album/1")
      #expect(absent.status == 1)
      #expect(absent.errors.contains("has no such blob"))
    }
  }

  @Test func standardInputIsStored() async throws {
    let url = try await FleetStore.serve.url(namespace)
    let put = try await Programs.run(
      ["/bin/sh", "-c", #"printf hello | "$0" put "$1" key --json"#, RemoteProgram.path, url])
    #expect(put.status == 0)
    #expect(
      Self.text(put.output)
        == "{\"type\":\"remoteResult\",\"operation\":\"put\",\"key\":\"key\",\"payloadSize\":5,\"ttl\":\(Int64.max)}\n")
    #expect(try await Self.text(RemoteProgram.run("get", url, "key").output) == "hello")
  }

  @Test func aRuleIsPrintedForS3() async throws {
    let rule = try await RemoteProgram.run("lifecycle", "s3://bucket/team/app?region=eu-central-1", "--days", "7")
    #expect(rule.status == 0)
    let object = try JSONSerialization.jsonObject(with: rule.output) as? [String: [[String: Any]]]
    let first = try #require(object?["Rules"]?.first)
    #expect(first["Filter"] as? [String: String] == ["Prefix": "team/app/"])
    #expect(first["Expiration"] as? [String: Int] == ["Days": 7])
    let other = try await RemoteProgram.run("lifecycle", "http://127.0.0.1:1/x")
    #expect(Self.text(other.output).hasPrefix("Nothing to install"))
  }

  @Test(arguments: [
    [], ["check"], ["check", "bucket"], ["check", "ftp://x"], ["check", "https://user:S3cret@host/x"],
    ["get", "s3://bucket"],
    ["list", "s3://bucket", "--limit", "0"], ["lifecycle", "s3://bucket", "--days", "0"], ["bogus", "s3://bucket"],
    ["check", "s3://bucket?regoin=x"], ["put", "s3://bucket", "key", "/dev/null", "--ttl", "0"],
  ])
  func wrongUsageIsRefused(arguments: [String]) async throws {
    let run = try await Programs.run([RemoteProgram.path] + arguments)
    #expect(run.status == (arguments.isEmpty ? 0 : 64), "\(run.errors)")
    #expect(!run.errors.contains("S3cret"))
  }

  /// `BLOBCACHE_RENEW_SNAPSHOTS=1` renews the snapshots.
  @Test(arguments: ["", "check", "list", "get", "put", "remove", "lifecycle"])
  func helpIsAsItWas(subcommand: String) async throws {
    let arguments = subcommand.isEmpty ? [] : [subcommand]
    let run = try await Programs.run([RemoteProgram.path] + arguments + ["--help"], environment: ["COLUMNS": "80"])
    #expect(run.status == 0)
    let name = (["blobcache-remote"] + arguments).joined(separator: "-")
    let snapshot = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "../../../../Tests/ToolTests/Snapshots/\(name).txt").standardized
    if ProcessInfo.processInfo.environment["BLOBCACHE_RENEW_SNAPSHOTS"] == "1" { try run.output.write(to: snapshot) }
    #expect(Self.text(run.output) == (try String(contentsOf: snapshot, encoding: .utf8)))
  }
}
