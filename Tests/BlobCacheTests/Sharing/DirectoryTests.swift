import BlobCache
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, A21 and P10: the directory that a cache uses, and the caches that it shares it with.
@Suite struct DirectoryTests {
  let test: TestCache

  init() throws { test = try TestCache() }

  private func path(_ relative: String) -> FilePath { FilePath(test.outside.path.string + "/" + relative) }

  private func make(_ relative: String) throws {
    try FileManager.default.createDirectory(atPath: path(relative).string, withIntermediateDirectories: true)
  }

  private func move(_ from: String, to: String) throws {
    try FileManager.default.moveItem(atPath: path(from).string, toPath: path(to).string)
  }

  /// Creates a symbolic link to a directory, and replaces a previous link.
  private func link(_ name: String, to target: String) throws {
    // The link does not exist the first time.
    try? FileManager.default.removeItem(atPath: path(name).string)
    try FileManager.default.createSymbolicLink(atPath: path(name).string, withDestinationPath: path(target).string)
  }

  private func cache(
    _ relative: String, _ change: (inout BlobCache.Configuration) -> Void = { _ in }
  ) throws -> BlobCache {
    try BlobCache(directory: path(relative), configuration: test.configuration(change), files: test.disk.files)
  }

  private func exclusive(_ configuration: inout BlobCache.Configuration) {
    configuration.store.access.sharing = .exclusive
  }

  private func onDisk(_ relative: String, _ key: BlobKey) throws -> Data? {
    try BlobStore(directory: path(relative), configuration: test.storeConfiguration).load(key)?.payload
  }

  @discardableResult
  private func expectTaken(
    _ message: String, sourceLocation: SourceLocation = #_sourceLocation, _ body: () async throws -> Void
  ) async -> BlobStoreError? {
    let error = await #expect(throws: BlobStoreError.self, sourceLocation: sourceLocation) { try await body() }
    #expect(error?.code == .invalidConfiguration, sourceLocation: sourceLocation)
    #expect(error?.message.contains(message) == true, sourceLocation: sourceLocation)
    return error
  }

  // MARK: - Paths

  /// `x/link/../cache` is not `x/cache`, whether or not either of them exists yet.
  @Test(arguments: [true, false]) func dotsAfterALinkLeadToWhatIsAboveItsTarget(isThere: Bool) async throws {
    try make("x")
    try make("far/away")
    if isThere {
      try make("x/cache")
      try make("far/cache")
    }
    try link("x/link", to: "far/away")
    let near = try cache("x/cache")
    let far = try cache("x/link/../cache")
    #expect(near.store !== far.store)
    try await near.store(payload(10, 1), for: "a")
    try await far.store(payload(10, 2), for: "a")
    #expect(try await near.load("a")?.payload == payload(10, 1))
    #expect(try onDisk("x/cache", "a") == payload(10, 1))
    #expect(try onDisk("far/cache", "a") == payload(10, 2))
    #expect(try cache("far/cache").store === far.store)
    #expect(try cache("missing/../x/./cache").store === near.store)
  }

  #if canImport(Glibc)
    @Test func aRelativePathIsThatOfWhenTheCacheWasMade() async throws {
      try make("one")
      try make("two")
      let (test, one, two) = (test, try Files().canonical(path("one")), path("two"))
      try await withOwnWorkingDirectory { changeDirectory in
        try changeDirectory(one)
        let cache = try BlobCache(directory: "cache", configuration: test.configuration())
        let store = try BlobStore(directory: "store", configuration: test.storeConfiguration)
        #expect(try store.filePath(for: "a") == one.appending("store/a"))
        try changeDirectory(two)
        for name in ["a", "b"] as [BlobKey] {
          try cache.store.store(payload(10), for: name)
          try store.store(payload(10), for: name)
          // The root is checked again.
          cache.store.checkRoot()
          store.checkRoot()
        }
        #expect(try cache.store.usage().records == 2)
        #expect(try store.usage().records == 2)
        // A new cache of the same name is a different cache now.
        let other = try BlobCache(directory: "cache", configuration: test.configuration())
        #expect(other.store !== cache.store)
        #expect(try other.store.load("a") == nil)
      }
      #expect(try test.outside.names(in: "one") == ["cache", "store"])
      #expect(try test.outside.names(in: "two") == [])
    }
  #endif

  @Test(arguments: [true, false]) func aLinkThatLeadsElsewhereLaterMovesNoCache(isExclusive: Bool) async throws {
    func configure(_ configuration: inout BlobCache.Configuration) {
      if isExclusive { exclusive(&configuration) }
    }
    try make("a")
    try make("b")
    try link("link", to: "a")
    let first = try cache("link", configure)
    try await first.store(payload(10, 1), for: "key")
    try link("link", to: "b")
    let second = try cache("b", configure)
    let third = try cache("link", configure)
    #expect(second.store !== first.store && second.store === third.store)
    try await second.store(payload(10, 2), for: "key")
    for cache in [first, second] { cache.store.checkRoot() }
    try await first.store(payload(10, 3), for: "other")
    #expect(try await first.load("key")?.payload == payload(10, 1))
    #expect(try await second.load("key")?.payload == payload(10, 2))
    #expect(try await second.load("other") == nil)
    #expect(try onDisk("a", "other") == payload(10, 3))
  }

  @Test func anEmptyPathIsNoDirectory() {
    let error = #expect(throws: BlobStoreError.self) {
      _ = try BlobCache(directory: "", configuration: test.configuration())
    }
    #expect(error?.code == .invalidConfiguration)
  }

  // MARK: - Paths that come to lead to one directory

  /// Returns two caches whose paths lead to two missing directories, and later to the same one.
  private func cachesOfOne(_ change: (inout BlobCache.Configuration) -> Void) throws -> (BlobCache, BlobCache) {
    let caches = (try cache("link/cache", change), try cache("real/cache", change))
    try make("real")
    try link("link", to: "real")
    #expect(caches.0.store !== caches.1.store)
    return caches
  }

  @Test func ofTwoThatHaveADirectoryToThemselvesOnlyOneDoes() async throws {
    let (first, second) = try cachesOfOne(exclusive)
    try await first.store(payload(10, 1), for: "a")
    let error = await expectTaken("another cache") { try await second.store(payload(10, 2), for: "a") }
    #expect(error?.message.contains("link/cache") == true)
    #expect(error?.path?.string.hasSuffix("real/cache") == true)
    await expectTaken("another cache") { _ = try await second.load("a") }
    #expect(second.blobInMemory(for: "a") == nil)
    #expect(try await first.load("a")?.payload == payload(10, 1))
    // A closed cache no longer owns the directory, although a reference to it exists.
    try await first.close()
    #expect(try await second.load("a")?.payload == payload(10, 1))
    try await second.store(payload(10, 2), for: "a")
  }

  @Test func whoSharesADirectoryDoesNotShareItWithOneThatHasItToItself() async throws {
    let first = try cache("link/cache")
    let second = try cache("real/cache", exclusive)
    try make("real")
    try link("link", to: "real")
    try await first.store(payload(10, 1), for: "a")
    await expectTaken("another cache") { _ = try await second.load("a") }
  }

  /// The caches behave like two processes.
  @Test func twoThatShareADirectorySeeEachOther() async throws {
    let (first, second) = try cachesOfOne { _ in }
    for seed in 1...5 as ClosedRange<UInt64> {
      try await first.store(payload(10, seed), for: "a")
      #expect(try await second.load("a")?.payload == payload(10, seed))
      #expect(second.blobInMemory(for: "a")?.payload == payload(10, seed))
    }
  }

  /// The directory is recognized by device and inode, because its path differs.
  @Test func aCacheThatIsMadeLaterJoinsTheOneThatHasTheDirectory() async throws {
    let first = try cache("link/cache", exclusive)
    try make("real")
    try link("link", to: "real")
    try await first.store(payload(10, 1), for: "a")
    let second = try cache("real/cache", exclusive)
    #expect(second.store === first.store)
    await expect(.invalidConfiguration) { _ = try cache("real/cache") }
    // When the paths lead to different directories, the engine follows neither of them.
    try make("other/cache")
    try link("link", to: "other")
    first.store.checkRoot()
    await expectTaken("leads elsewhere") { _ = try await second.load("a") }
    await expectTaken("leads elsewhere") { try await first.store(payload(10), for: "b") }
    #expect(try test.outside.names(in: "other/cache") == [])
    try link("link", to: "real")
    #expect(try await second.load("a")?.payload == payload(10, 1))
  }

  // MARK: - Roots that are replaced

  /// P7: the first directory is replaced by the second one.
  @Test func aDirectoryThatIsMovedBelongsToWhoHasItsNewPath() async throws {
    let (first, second) = (try cache("one", exclusive), try cache("two", exclusive))
    try await first.store(payload(10, 1), for: "a")
    try await second.store(payload(10, 2), for: "a")
    try move("one", to: "old")
    try move("two", to: "one")
    // The second cache has not checked its root yet. When it does, it finds no directory at its path.
    first.store.checkRoot()
    #expect(try await first.load("a")?.payload == payload(10, 2))
    #expect(try await second.load("a") == nil)
    try await second.store(payload(10, 3), for: "a")
    #expect(try await first.load("a")?.payload == payload(10, 2))
    #expect(try onDisk("two", "a") == payload(10, 3))
    #expect(try onDisk("old", "a") == payload(10, 1))
  }

  /// V6, P7: the cache's own changes prove nothing about a directory that was moved to its path.
  @Test func withoutGenerationsWhatLayInTheDirectoryBeforeIsNotAnswered() async throws {
    test.disk.fail(.map, .invalidArgument)
    let (cache, other) = (try cache("one", exclusive), try cache("two", exclusive))
    try await cache.store(payload(10, 1), for: "a")
    #expect(try await cache.load("a")?.payload == payload(10, 1))
    #expect(cache.blobInMemory(for: "a") != nil)
    try await other.store(payload(10, 2), for: "a")
    try await other.close()
    try move("one", to: "old")
    try move("two", to: "one")
    cache.store.checkRoot()
    #expect(cache.blobInMemory(for: "a") == nil)
    #expect(try await cache.load("a")?.payload == payload(10, 2))
    try FileManager.default.removeItem(atPath: path("one").string)
    cache.store.checkRoot()
    #expect(cache.blobInMemory(for: "a") == nil)
    #expect(try await cache.load("a") == nil)
  }

  /// V6.
  @Test(arguments: [true, false]) func withoutGenerationsACollectionLeavesTheRestInMemory(isTrim: Bool) async throws {
    test.disk.fail(.map, .invalidArgument)
    let cache = try cache("cache", exclusive)
    for number in 0..<40 {
      let key = BlobKey("\(number)")
      try await cache.store(payload(10), for: key, ttl: .seconds(number % 2 == 0 ? 5 : 5000))
      #expect(try await cache.load(key) != nil)
    }
    test.clock.advance(by: isTrim ? 1 : 6)
    let removed = isTrim ? try await cache.trim(to: .recordCount(20)).evicted : try await cache.collect().expired
    #expect(removed == 20)
    let reads = test.disk.count(.read)
    for number in 0..<40 {
      let key = BlobKey("\(number)")
      let isResident = cache.blobInMemory(for: key, touching: false) != nil
      #expect(test.disk.count(.read) == reads)
      #expect(try await cache.load(key, touching: false) == nil || isResident)
    }
    #expect((0..<40).count { cache.blobInMemory(for: BlobKey("\($0)"), touching: false) != nil } == 20)
  }
}
