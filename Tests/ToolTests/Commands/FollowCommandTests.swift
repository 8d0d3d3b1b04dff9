import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// `store --visible` and `load --follow`: writers and followers in separate processes.
@Suite(.timeLimit(.minutes(30))) struct FollowCommandTests {
  let tool: Tool
  let store: BlobStore

  init() throws {
    tool = try Tool()
    store = try BlobStore(directory: FilePath(tool.directory.url("cache").path))
  }

  /// Starts a `store --visible` that reads the test's input.
  private func writer() throws -> (process: ChildProcess, input: Pipe) {
    let input = Pipe()
    let process = try ChildProcess(
      [Tool.executable.path, "store", "--visible", "--quiet", "cache", "key"], in: tool.directory.url(""), input: input)
    return (process, input)
  }

  /// Opens a follower once the writer has begun.
  private func follower(timeout: Duration = .seconds(300)) throws -> BlobFollower {
    while true {
      if let follower = try store.openFollower(for: "key", timeout: timeout) { return follower }
      Thread.sleep(forTimeInterval: 0.01)
    }
  }

  private func read(_ follower: BlobFollower, at offset: Int64) throws -> Data {
    var memory = [UInt8](repeating: 0, count: 1000)
    var span = memory.mutableSpan
    var bytes = span.mutableBytes
    let count = try follower.read(at: offset, into: &bytes)
    return Data(memory.prefix(count))
  }

  private func all(_ follower: BlobFollower) throws -> Data {
    var bytes = Data()
    try follower.forEachPiece { piece in bytes.append(piece.withUnsafeBytes { Data($0) }) }
    return bytes
  }

  @Test func aStreamIsFollowedInOtherProcesses() async throws {
    let (process, input) = try writer()
    let follower = try follower()
    try input.fileHandleForWriting.write(contentsOf: Data("first".utf8))
    #expect(try read(follower, at: 0) == Data("first".utf8))
    let busy = try await tool.run("load", "cache", "key", now: nil)
    #expect(busy.status == 1 && busy.error.hasPrefix("blobcache: key: damaged: recordIsStreamAndBusy"))
    let listed = try await tool.run("list", "cache", "--state", "streaming", "--json", now: nil)
    #expect(try listed.objects().first?["state"] == .string("streaming"))
    let output = Pipe()
    let following = try ChildProcess(
      [Tool.executable.path, "load", "--follow", "cache", "key"], in: tool.directory.url(""), output: output)
    try output.fileHandleForWriting.close()
    // The follower has the first chunk before the second is written.
    #expect(try output.fileHandleForReading.read(upToCount: 5) == Data("first".utf8))
    try input.fileHandleForWriting.write(contentsOf: Data(", second".utf8))
    #expect(try output.fileHandleForReading.read(upToCount: 8) == Data(", second".utf8))
    #expect(try read(follower, at: 5) == Data(", second".utf8))
    try input.fileHandleForWriting.close()
    #expect(await process.ended() == 0)
    #expect(try output.fileHandleForReading.readToEnd() ?? Data() == Data())
    #expect(await following.ended() == 0)
    #expect(try all(follower) == Data("first, second".utf8))
    let whole = try await tool.run("load", "cache", "key", "--follow", now: nil)
    #expect(whole.status == 0 && whole.text == "first, second")
  }

  /// Y22: an aborted blob is an error of its followers, without output.
  @Test func aBlobGivenUpIsAnError() async throws {
    var writer = try store.openWriter(for: "key", visibility: .whileWriting)
    try writer.append(Data("first".utf8))
    let (output, errors) = (Pipe(), Pipe())
    let arguments = [Tool.executable.path, "load", "--follow", "cache", "key"]
    let toPipe = try ChildProcess(arguments, in: tool.directory.url(""), output: output, errors: errors)
    for pipe in [output, errors] { try pipe.fileHandleForWriting.close() }
    let toFile = try ChildProcess(arguments + ["--output", "followed"], in: tool.directory.url(""))
    #expect(try output.fileHandleForReading.read(upToCount: 5) == Data("first".utf8))
    writer.discard()
    #expect(await toPipe.ended() == 2)
    let message = try errors.fileHandleForReading.readToEnd().map { String(decoding: $0, as: UTF8.self) }
    #expect(message?.contains("the blob is not to come") == true, "\(message as Any)")
    // The process may or may not have found the blob.
    #expect(await toFile.ended() != 0)
    #expect(!FileManager.default.fileExists(atPath: tool.directory.url("followed").path))
  }

  /// Y17, Y22: a killed writer is an error, and a collection removes its file.
  @Test func aKilledWriterIsAnError() async throws {
    let (process, input) = try writer()
    let follower = try follower()
    try input.fileHandleForWriting.write(contentsOf: Data("first".utf8))
    #expect(try read(follower, at: 0) == Data("first".utf8))
    process.send(SIGKILL)
    let error = #expect(throws: BlobStoreError.self) { try all(follower) }
    #expect(error?.code == .streamBroken)
    _ = await process.ended()
    let load = try await tool.run("load", "cache", "key", "--follow", now: nil)
    #expect(load.status == 1 && load.error.hasPrefix("blobcache: key: damaged: abandonedStream"))
    let verified = try await tool.run("verify", "cache", now: nil)
    #expect(verified.status == 1 && verified.text.contains("abandonedStream"))
    let list = try await tool.run("list", "cache", "--state", "all", now: nil)
    #expect(list.text.contains("abandonedStream"))
    #expect(try store.collect().damaged == 1)
    let absent = try await tool.run("load", "cache", "key", "--follow", now: nil)
    #expect(absent.status == 1 && absent.error.hasPrefix("blobcache: key: not found"))
  }

  /// Y21: with a stopped writer, followers time out, and continue after it continues.
  @Test func aStoppedWriterStalls() async throws {
    let (process, input) = try writer()
    let follower = try follower(timeout: .milliseconds(50))
    process.send(SIGSTOP)
    let error = #expect(throws: BlobStoreError.self) { try read(follower, at: 0) }
    #expect(error?.code == .streamStalled)
    process.send(SIGCONT)
    try input.fileHandleForWriting.write(contentsOf: Data("late".utf8))
    try input.fileHandleForWriting.close()
    #expect(await process.ended() == 0)
    #expect(try all(follower) == Data("late".utf8))
  }

  @Test func wrongUsage() async throws {
    #expect(try await tool.run("load", "cache", "key", "--follow", "--range", "0-5").status == 64)
    let missing = try await tool.run("store", "--visible", "cache", "key", "nothing-there", now: nil)
    #expect(missing.status == 2 && missing.error.contains("nothing-there"))
    #expect(try store.load("key") == nil)
    let empty = try await tool.run("store", "--visible", "cache", "key", "--ttl", "1h", "--locked", now: nil)
    #expect(empty.status == 0 && empty.text == "key: stored, 0 B, ttl 1h, locked\n", "\(empty)")
  }
}
