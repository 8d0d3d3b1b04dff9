import BlobCache
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// The next load sees changes that other processes make to the directory, although memory has the blob.
@Suite(.timeLimit(.minutes(30))) struct ProcessTests {
  let test: TestCache
  let cache: BlobCache

  init() throws {
    test = try TestCache()
    cache = try test.cache()
  }

  /// Runs the tool in a separate process, at the time of the test's clock.
  private func tool(_ subcommand: String, _ arguments: String...) async throws {
    let command = [Programs.built("blobcache").path, subcommand, "--quiet", "--now", "\(test.clock.now.seconds)"]
    let process = try ChildProcess(command + [test.root.string] + arguments, errors: FileHandle.standardError)
    #expect(await process.ended() == 0)
  }

  /// Loads a key, so that memory has its blob if the record exists.
  private func load(_ key: BlobKey) async throws -> Data? {
    let payload = try await cache.load(key)?.payload
    #expect(cache.blobInMemory(for: key)?.payload == payload)
    return payload
  }

  @Test func aBlobThatAnotherProcessReplacesIsReadAgain() async throws {
    try await cache.store(payload(10, 1), for: "key")
    let file = test.outside.url("file")
    for seed in UInt64(2)...5 {
      #expect(try await load("key") == payload(10, seed - 1))
      try payload(10, seed).write(to: file)
      try await tool("store", "key", file.path)
      #expect(cache.blobInMemory(for: "key") == nil)
      #expect(try await load("key") == payload(10, seed))
    }
  }

  @Test func aBlobThatAnotherProcessRemovesIsGone() async throws {
    for removal in [["remove", "key"], ["remove", "--unlocked"], ["remove", "--all"]] {
      try await cache.store(payload(10), for: "key")
      #expect(try await load("key") == payload(10))
      try await tool(removal[0], removal[1])
      #expect(try await load("key") == nil)
    }
  }

  /// A18. The other process finds no record that it could remove.
  @Test(arguments: ["--unlocked", "--all"])
  func whatIsProducedWhileAnotherProcessRemovesAllIsNotStored(_ scope: String) async throws {
    try await cache.store(payload(1), for: "other")
    let answer = try await cache.load("key") {
      try await tool("remove", scope)
      return payload(10)
    }
    #expect(answer.payload == payload(10))
    #expect(try await load("key") == nil)
    #expect(try await load("other") == nil)
    _ = try await cache.load("key") { payload(11) }
    #expect(try await load("key") == payload(11))
  }

  @Test func aBlobThatAnotherProcessCollectsIsGone() async throws {
    try await cache.store(payload(1000), for: "old", ttl: .seconds(10_000))
    test.clock.advance(by: 1)
    try await cache.store(payload(1000), for: "new", ttl: .seconds(10_000))
    #expect(try await load("old") == payload(1000))
    try await tool("collect", "--size-limit", "1500")
    #expect(try await load("old") == nil)
    #expect(try await load("new") == payload(1000))
  }

  @Test func memoryAnswersWhileOtherProcessesChangeNothing() async throws {
    try await cache.store(payload(10), for: "key")
    try await tool("load", "key")
    try await tool("touch", "key")
    let calls = test.disk.count(.read)
    #expect(cache.blobInMemory(for: "key") != nil)
    #expect(try await cache.load("key") != nil)
    #expect(test.disk.count(.read) == calls)
  }
}
