import Foundation
import TestSupport
import Testing

@Suite struct StoreAndLoadTests {
  let tool: Tool

  init() throws {
    tool = try Tool()
  }

  @Test func standardInputIsStoredAndLoadedBack() async throws {
    let stored = try await tool.run("store", "cache", "key", input: Data("payload".utf8))
    #expect(stored.status == 0)
    #expect(stored.text == "key: stored, 7 B, ttl default\n")
    let loaded = try await tool.run("load", "cache", "key")
    #expect(loaded.status == 0)
    #expect(loaded.text == "payload")
    #expect(loaded.error == "")
  }

  @Test func aFileAndADashAreInputsToo() async throws {
    try tool.create("file", "from a file")
    #expect(try await tool.run("store", "cache", "a", "file").status == 0)
    #expect(try await tool.run("store", "cache", "b", "-", input: Data("from input".utf8)).status == 0)
    #expect(try await tool.run("load", "cache", "a").text == "from a file")
    #expect(try await tool.run("load", "cache", "b").text == "from input")
  }

  @Test func theResultIsALineOfJSON() async throws {
    let run = try await tool.run("store", "--json", "--ttl", "6h", "cache", "key", input: Data("12345".utf8))
    #expect(run.text.hasPrefix(#"{"type":"result","operation":"store","#))
    #expect(
      try run.objects() == [
        ["type": "result", "operation": "store", "key": "key", "result": "done", "payloadSize": 5, "ttl": 21600]
      ])
  }

  @Test func quietStoresSayNothing() async throws {
    #expect(try await tool.run("store", "--quiet", "cache", "key").text == "")
  }

  @Test func locksAreSetOrKept() async throws {
    func refCount() async throws -> JSONValue? {
      try await tool.run("list", "--json", "cache").objects().first?["refCount"]
    }
    try await tool.store("1", for: "key", "--locked")
    #expect(try await tool.run("lock", "cache", "key").status == 0)
    #expect(try await refCount() == 2)
    try await tool.store("2", for: "key", "--keep-locks")
    #expect(try await refCount() == 2)
    try await tool.store("3", for: "key", "--locked")
    #expect(try await refCount() == 1)
    try await tool.store("4", for: "key")
    #expect(try await refCount() == 0)
  }

  @Test func ttlZeroIsTheDefault() async throws {
    try await tool.store("1", for: "key", "--ttl", "0")
    let record = try #require(try await tool.run("list", "--json", "cache").objects().first)
    #expect(record["ttl"] == 0)
    #expect(record["expiresAt"] == .integer(Tool.now + 600))
  }

  @Test(arguments: [".", "missing"]) func whatCannotBeReadIsNotStored(file: String) async throws {
    let run = try await tool.run("store", "cache", "key", file)
    #expect(run.status == 2)
    #expect(run.error.hasPrefix("blobcache: store \"key\": "))
    #expect(run.error.contains("(2)"))
    #expect(try await tool.run("load", "cache", "key").status != 0)
  }

  @Test(arguments: [#"exec "$0" "$@" directory"#, #"exec "$0" "$@" <directory"#])
  func aDirectoryIsNoPayloadAndMakesNoCache(script: String) async throws {
    try tool.create("directory/file")
    let run = try await tool.run("store", "cache", "key", wrapper: ["sh", "-c", script])
    #expect(run.status == 2)
    #expect(run.error.hasPrefix("blobcache: store \"key\": read(2) of the input: Is a directory: "), "\(run.error)")
    #expect(try tool.directory.names() == ["directory"])
  }

  @Test func aFileSizeLimitFailsTheStoreAndLeavesNothing() async throws {
    try tool.storeFiles()
    try await tool.store("old", for: "key")
    let payload = Data(count: 1 << 20)
    let wrapper = ["sh", "-c", #"ulimit -f 8; exec "$0" "$@""#]
    let run = try await tool.run("store", "cache", "key", input: payload, wrapper: wrapper)
    #expect(run.status == 2)
    #expect(run.error.contains("pwritev(2): File too large"))
    #expect(try tool.directory.names(in: "cache/7c") == ["key"])
    #expect(try await tool.run("load", "cache", "key").text == "old")
  }

  @Test func aMissIsOneLineAndNothingOnStandardOutput() async throws {
    try await tool.store("1", for: "other")
    let run = try await tool.run("load", "cache", "key")
    #expect(run.status == 1)
    #expect(run.text == "")
    #expect(run.error == "blobcache: key: not found\n")
  }

  @Test func anExpiredBlobIsNotFoundAndALockedOneIs() async throws {
    try await tool.store("1", for: "key", "--ttl", "10m")
    #expect(try await tool.run("load", "cache", "key", now: Tool.now + 600).status == 0)
    #expect(try await tool.run("load", "cache", "key", now: Tool.now + 601).status == 1)
    #expect(try await tool.run("lock", "cache", "key").status == 0)
    #expect(try await tool.run("load", "cache", "key", now: Tool.now + 601).status == 0)
  }

  @Test func aLoadMovesTheLastAccessUnlessToldNotTo() async throws {
    try await tool.store("1", for: "key")
    #expect(try await tool.run("load", "--no-touch", "cache", "key", now: Tool.now + 500).status == 0)
    #expect(try await tool.run("list", "--json", "cache").objects().first?["updateTime"] == .integer(Tool.now))
    #expect(try await tool.run("load", "cache", "key", now: Tool.now + 500).status == 0)
    #expect(try await tool.run("list", "--json", "cache").objects().first?["updateTime"] == .integer(Tool.now + 500))
  }

  @Test func damageIsSaidAndNothingIsWritten() async throws {
    try tool.storeFiles()
    try await tool.store("payload", for: "key")
    try tool.damage("cache/7c/key", at: 66)
    let run = try await tool.run("load", "cache", "key")
    #expect(run.status == 1)
    #expect(run.text == "")
    #expect(
      run.error == "blobcache: key: damaged: payloadChecksumMismatch; `blobcache dump` shows the bytes, "
        + "`remove` or `verify --repair remove` removes the file\n")
  }

  @Test func anOutputFileIsReplacedAsAWhole() async throws {
    try await tool.store("new", for: "key")
    try tool.create("out", "old content")
    let run = try await tool.run("load", "--output", "out", "--json", "cache", "key")
    #expect(run.status == 0)
    #expect(
      try run.objects() == [
        ["type": "result", "operation": "load", "key": "key", "result": "done", "payloadSize": 3]
      ])
    #expect(try String(contentsOf: tool.directory.url("out"), encoding: .utf8) == "new")
    #expect(try tool.directory.names() == ["cache", "out"])
  }

  @Test func anOutputFileStaysWhereTheLoadFails() async throws {
    try await tool.store(String(repeating: "x", count: 1 << 20), for: "key")
    try tool.create("out", "old content")
    #expect(try await tool.run("load", "--output", "out", "cache", "missing").status == 1)
    let wrapper = ["sh", "-c", #"ulimit -f 8; exec "$0" "$@""#]
    let run = try await tool.run("load", "--output", "out", "cache", "key", wrapper: wrapper)
    #expect(run.status == 2)
    #expect(run.error.contains("File too large"))
    #expect(try String(contentsOf: tool.directory.url("out"), encoding: .utf8) == "old content")
    #expect(try tool.directory.names() == ["cache", "out"])
  }

  @Test(arguments: [
    ("link", "a link is there, and only regular files are replaced: link" + Self.another),
    ("cache", "a directory is there, and only regular files are replaced: cache" + Self.another),
    ("/", "a directory is there, and only regular files are replaced: /" + Self.another),
    ("missing/out", "open(2): No such file or directory: missing"),
  ])
  func otherOutputsAreRefused(output: String, message: String) async throws {
    try await tool.store("new", for: "key")
    try tool.create("target", "old content")
    try FileManager.default.createSymbolicLink(
      at: tool.directory.url("link"), withDestinationURL: tool.directory.url("target"))
    let run = try await tool.run("load", "--output", output, "cache", "key")
    #expect(run.status == 2)
    #expect(run.error == "blobcache: load \"key\": \(message)\n")
    #expect(try String(contentsOf: tool.directory.url("target"), encoding: .utf8) == "old content")
  }

  private static let another = "; name another file, or - for standard output"

  /// Names of a shell's standard streams, which are links to a pipe or to an open file.
  @Test(arguments: [
    (#""$0" "$@" --output /dev/stdout >copy"#), (#""$0" "$@" --output /dev/stdout | cat >copy"#),
    (#""$0" "$@" --output /dev/fd/7 7>copy"#), (#""$0" "$@" --output /proc/self/fd/7 7>copy"#),
    (#""$0" "$@" --output >(cat >copy); wait $!"#), (#""$0" "$@" --output /dev/stderr 2>copy"#),
  ]) func theStreamsOfAShellAreWrittenTo(script: String) async throws {
    try await tool.store("payload", for: "key")
    let run = try await tool.run("load", "cache", "key", wrapper: ["bash", "-c", script])
    #expect(run.status == 0, "\(run.error)")
    #expect(try String(contentsOf: tool.directory.url("copy"), encoding: .utf8) == "payload")
  }

  @Test func aDescriptorThatIsNotOpenIsNamed() async throws {
    try await tool.store("payload", for: "key")
    let run = try await tool.run("load", "--output", "/dev/fd/77", "cache", "key")
    #expect(run.status == 2)
    #expect(run.error == "blobcache: load \"key\": write(2): Bad file descriptor: /dev/fd/77\n")
  }

  /// The limit is checked before reading: the file is sparse, and copying it would take long.
  @Test func aFileOverTheSizeLimitIsRefused() async throws {
    try await tool.store("1", for: "other")
    #expect(try await tool.run("configure", "cache", "--size-limit", "1GiB", now: nil).status == 0)
    try tool.create("huge")
    #expect(truncate(tool.directory.url("huge").path, (1 << 30) + 1) == 0)
    for wrapper in [[], ["sh", "-c", #""$0" "$@" <huge"#]] {
      let arguments = ["store", "cache", "key"] + (wrapper.isEmpty ? ["huge"] : [])
      let run = try await tool.run(arguments: arguments, wrapper: wrapper)
      #expect(run.status == 2)
      #expect(
        run.error
          == "blobcache: store \"key\": a payload of at least 1073741825 bytes does not fit into the size limit of "
          + "1073741824; nothing was stored, and an earlier blob stays\n")
      #expect(try await tool.run("load", "cache", "key").status == 1)
    }
  }

  @Test(arguments: [
    ("0-2", "pay"), ("4-", "oad"), ("-3", "oad"), ("-100", "payload"), ("0-100", "payload"), ("6-6", "d"),
  ]) func aRangeIsWrittenAlone(range: String, expected: String) async throws {
    try await tool.store("payload", for: "key")
    #expect(try await tool.run("load", "cache", "key", "--range", range).text == expected)
    let run = try await tool.run("load", "cache", "key", "--range", range, "--output", "out", "--json")
    #expect(try run.objects().first?["payloadSize"] == .integer(Int64(expected.utf8.count)))
    #expect(try String(contentsOf: tool.directory.url("out"), encoding: .utf8) == expected)
  }

  @Test(arguments: ["7-", "7-9", "-0", "99999999999999999999-"]) func aRangeBehindTheEndIsAnsweredNo(
    range: String
  )
    async throws
  {
    try await tool.store("payload", for: "key")
    let run = try await tool.run("load", "cache", "key", "--range", range, "--output", "out")
    #expect(run.status == 1)
    #expect(run.error == "blobcache: key: no such bytes: the payload has 7 bytes\n")
    #expect(try tool.directory.names() == ["cache"])
  }

  @Test(arguments: ["3-2", "x", "", "-", "0-1,4-5", "1", "bytes=0-1"]) func whatIsNoRangeIsWrongUsage(
    range: String
  )
    async throws
  {
    try await tool.store("payload", for: "key")
    let run = try await tool.run("load", "cache", "key", "--range", range)
    #expect(run.status == 64)
    #expect(run.text == "")
    #expect(run.error.contains("it must be a range of bytes: 0-1023, 1024- or -500 for the last 500"), "\(run.error)")
  }

  @Test func anOutputFileKeepsItsPermissions() async throws {
    try await tool.store("new", for: "key")
    try tool.create("out", "old content")
    #expect(chmod(tool.directory.url("out").path, 0o751) == 0)
    #expect(try await tool.run("load", "--output", "out", "cache", "key").status == 0)
    #expect(try String(contentsOf: tool.directory.url("out"), encoding: .utf8) == "new")
    let attributes = try FileManager.default.attributesOfItem(atPath: tool.directory.url("out").path)
    #expect(attributes[.posixPermissions] as? Int == 0o751)
  }

  @Test func damageLeavesTheOutputAsItWas() async throws {
    try await tool.store(String(repeating: "x", count: 1 << 20), for: "key")
    try tool.damage("cache/7c/key", at: 1000)
    try tool.create("out", "old content")
    for arguments in [["--output", "out"], []] {
      let run = try await tool.run(arguments: ["load", "cache", "key"] + arguments)
      #expect(run.status == 1 && run.text == "")
      #expect(run.error.hasPrefix("blobcache: key: damaged: payloadChecksumMismatch; "))
    }
    #expect(try String(contentsOf: tool.directory.url("out"), encoding: .utf8) == "old content")
    #expect(try tool.directory.names() == ["cache", "out"])
  }

  @Test func devicesAndPipesAreWrittenTo() async throws {
    try await tool.store("payload", for: "key")
    let run = try await tool.run("load", "--output", "/dev/null", "--json", "cache", "key")
    #expect(run.status == 0, "\(run.error)")
    #expect(try run.objects().first?["payloadSize"] == 7)
    // If the pipe is never opened for writing, its reader waits forever.
    let script = #"mkfifo pipe; cat pipe >copy & "$0" "$@"; status=$?; [ $status = 0 ] || kill $!; wait; exit $status"#
    let wrapper = ["sh", "-c", script]
    let piped = try await tool.run("load", "--output", "pipe", "cache", "key", wrapper: wrapper)
    #expect(piped.status == 0, "\(piped.error)")
    #expect(try String(contentsOf: tool.directory.url("copy"), encoding: .utf8) == "payload")
    #expect(try tool.directory.names() == ["cache", "copy", "pipe"])
  }

  @Test(.enabled(if: FileManager.default.fileExists(atPath: "/dev/full")))
  func aDeviceThatTakesNothingIsAFailure() async throws {
    try await tool.store("payload", for: "key")
    let run = try await tool.run("load", "--output", "/dev/full", "cache", "key")
    #expect(run.status == 2)
    #expect(run.error == "blobcache: load \"key\": write(2): No space left on device: /dev/full\n")
  }

  @Test func largePayloadsPassThrough() async throws {
    let size = 64 << 20
    let stored = try await tool.run("store", "cache", "big", input: Data(repeating: 7, count: size))
    #expect(stored.status == 0)
    let loaded = try await tool.run("load", "cache", "big")
    #expect(loaded.status == 0)
    #expect(loaded.output == Data(repeating: 7, count: size))
  }
}
