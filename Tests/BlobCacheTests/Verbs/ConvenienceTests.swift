import BlobCache
import Foundation
import SystemPackage
import TestSupport
import Testing

/// Convenience: directories as strings and URLs, dates, errors with text, operations on several keys.
@Suite(.timeLimit(.minutes(30))) struct ConvenienceTests {
  let test: TestCache

  init() throws { test = try TestCache() }

  @Test func aDirectoryIsAPathAStringOrAURL() async throws {
    let path = test.root.string
    let cache = try BlobCache(directory: path, configuration: test.configuration())
    #expect(cache.directory == test.root)
    try await cache.close()
    let other = try BlobCache(directory: URL(filePath: path), configuration: test.configuration())
    #expect(other.directory == test.root)
    try await other.close()
    #expect(try BlobStore(directory: path).directory == test.root)
    #expect(try BlobStore(directory: URL(filePath: path, directoryHint: .isDirectory)).directory == test.root)
  }

  @Test func aURLOfTheWebIsNoDirectory() throws {
    let url = try #require(URL(string: "https://example.com/cache"))
    let error = #expect(throws: BlobStoreError.self) { try BlobCache(directory: url) }
    #expect(error?.code == .invalidConfiguration)
    #expect(error?.message.contains("https://example.com/cache") == true)
  }

  @Test func errorsTellWhatHappenedInFoundationsWords() async throws {
    let cache = try test.cache()
    let error = await #expect(throws: BlobStoreError.self) { try await cache.load("") }
    #expect(error?.operation == "load")
    let description = (error as (any Error)?)?.localizedDescription
    #expect(description == #"load "": the key is empty, and a key has one character at least"#)
    try await cache.close()
    let closed = await expect(.closed) { _ = try await cache.load("a") }
    #expect((closed as (any Error)?)?.localizedDescription.contains("the cache was closed") == true)
  }

  /// Each error contains the name of the cache's operation instead of the store's first call.
  @Test func anErrorNamesTheVerb() async throws {
    let cache = try test.cache()
    func operation(_ body: () async throws -> Void) async -> String? {
      await #expect(throws: BlobStoreError.self) { try await body() }?.operation
    }
    #expect(await operation { try await cache.store(payload(1), for: "") } == "store")
    #expect(await operation { _ = try await cache.load("") } == "load")
    #expect(await operation { _ = try await cache.load("") { payload(1) } } == "load")
    #expect(await operation { try await cache.remove("") } == "remove")
    #expect(await operation { try await cache.touch("") } == "touch")
    #expect(await operation { try await cache.lock("") } == "lock")
    #expect(await operation { try await cache.unlock("") } == "unlock")
  }

  @Test func aTimeIsADateAndBack() {
    let time = UnixTime(seconds: 1_700_000_000)
    #expect(UnixTime(time.date) == time)
    #expect(UnixTime(Date(timeIntervalSince1970: 1.9)) == UnixTime(seconds: 1))
    #expect(UnixTime(Date(timeIntervalSince1970: -0.5)) == UnixTime(seconds: -1))
    #expect(UnixTime(Date(timeIntervalSince1970: 1e30)) == UnixTime(seconds: .max))
    #expect(UnixTime(Date(timeIntervalSince1970: -1e30)) == UnixTime(seconds: .min))
  }

  @Test func whatLivesForeverOutlivesTheClock() async throws {
    let cache = try test.cache()
    try await cache.store(payload(3), for: "a", ttl: .never)
    test.clock.advance(by: 1 << 40)
    cache.removeAllFromMemory()
    #expect(try await cache.load("a")?.payload == payload(3))
    #expect(try await cache.collect().expired == 0)
    #expect(try await cache.load("a")?.payload == payload(3))
  }

  @Test(arguments: [false, true]) func aPrefixIsRemovedFromDiskAndMemory(isStaged: Bool) async throws {
    let cache = try test.cache { if isStaged { $0.writing = .behind(.init()) } }
    for key in ["album/1", "album/2", "albums", "other"] as [BlobKey] { try await cache.store(payload(5), for: key) }
    let report = try await cache.remove(prefix: "album/")
    #expect(report.files == 2)
    #expect(report.bytes == 2 * (64 + 5))
    #expect(try await cache.load("album/1") == nil)
    #expect(try await cache.load("albums") != nil)
    #expect(try await cache.load("other") != nil)
    #expect(try test.otherStore().remove(prefix: "o").files == 1)
    #expect(try await cache.load("other") == nil)
  }

  @Test func anEmptyPrefixIsNoWayToRemoveEverything() async throws {
    let cache = try test.cache()
    try await cache.store(payload(5), for: "a")
    let error = await #expect(throws: BlobStoreError.self) { try await cache.remove(prefix: "") }
    #expect(error?.code == .invalidKey)
    #expect(throws: BlobStoreError.self) { try test.otherStore().remove(prefix: "") }
    #expect(try await cache.load("a") != nil)
  }

  @Test func theCacheVerifiesImportsAndTellsStatistics() async throws {
    let cache = try test.cache()
    try await cache.store(payload(5), for: "a")
    #expect(try await cache.load("new") == nil)
    let source = test.outside.path.appending("source")
    try FileManager.default.createDirectory(atPath: source.string, withIntermediateDirectories: false)
    try payload(9).write(to: URL(filePath: source.appending("new").string))
    let found = Log<String>()
    let imported = try await cache.importFiles(from: source) { finding in
      if case .imported(_, let key, _, _) = finding { found.append(key.string) }
    }
    #expect(imported.imported == 1)
    #expect(found.all == ["new"])
    #expect(try await cache.load("new")?.payload == payload(9))
    #expect(try await cache.verify().soundRecords == 2)
    try test.flipLastByte(of: "ne/new")
    #expect(try await cache.verify(repairing: .remove).repairedFiles == 1)
    try await cache.collect()
    #expect(try await cache.statistics().passes == 1)
  }
}
