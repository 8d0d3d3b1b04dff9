import BlobCache
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Caches that are opened once or twice, and closed.
@Suite struct LifeTests {
  let test: TestCache

  init() throws { test = try TestCache() }

  @Test func openingTouchesNothing() throws {
    let cache = try test.cache()
    #expect(!FileManager.default.fileExists(atPath: test.root.string))
    #expect(cache.threadCount == 0)
    #expect(cache.directory == test.root)
  }

  /// A cache without work keeps no subdirectory open, and opens it again for the next change.
  @Test func anIdleCacheClosesItsSubdirectories() async throws {
    let cache = try BlobCache(
      directory: test.root, configuration: test.configuration(), files: Files(budget: OpenFileBudget(limit: 4)))
    // The first store has no control file yet, which determines whether a subdirectory may be kept open.
    for length in 1...3 { try await cache.store(payload(length), for: "key") }
    #expect(openPaths(below: test.root.appending("ke")).count == 1)
    cache.rest()
    #expect(openPaths(below: test.root.appending("ke")).isEmpty)
    try await cache.store(payload(4), for: "key")
    #expect(try await cache.load("key")?.payload == payload(4))
    #expect(openPaths(below: test.root.appending("ke")).count == 1)
  }

  @Test func twoCachesOnOneDirectoryShareEverything() async throws {
    let first = try test.cache()
    let second = try BlobCache(
      directory: test.outside.path.appending("other/../cache"), configuration: test.configuration())
    try await first.store(payload(10), for: "a")
    #expect(second.blobInMemory(for: "a")?.payload == payload(10))
    #expect(first.store === second.store)
    try await first.close()
    #expect(try await second.load("a") != nil)
    await expect(.closed) { _ = try await first.load("a") }
    try await second.store(payload(11), for: "a")
    #expect(try await second.load("a")?.payload == payload(11))
  }

  /// A14: closing does not wait for another process that is stopped during a collection, nor for a waiting trim.
  @Test(.timeLimit(.minutes(30))) func closingWaitsForNothingThatWaits() async throws {
    let cache = try test.cache { $0.store.access.lockTimeout = .seconds(3600) }
    try await cache.store(payload(10), for: "a")
    let began = Latch()
    let mayEnd = Counter()
    defer { mayEnd.increment() }
    let other = try test.otherStore()
    let collection = Task.detached {
      await withCheckedContinuation { continuation in
        Thread.detachNewThread {
          var options = BlobStore.CollectionOptions()
          options.isStopped = {
            began.open()
            while mayEnd.count == 0 { usleep(1000) }
            return true
          }
          continuation.resume(returning: Result { try other.collect(options) })
        }
      }
    }
    await began.wait()
    let asked = (Counter(), Counter())
    let trims = [asked.0, asked.1].map { asked in
      var options = BlobStore.CollectionOptions()
      options.isStopped = {
        asked.increment()
        return false
      }
      return Task.detached { [options] in try await cache.trim(to: .recordCount(0), options) }
    }
    // Each trim has found the other collection, and asks whether to continue waiting.
    try await until { asked.0.count > 0 && asked.1.count > 0 }
    try await cache.close()
    for trim in trims {
      let error = await #expect(throws: BlobStoreError.self) { _ = try await trim.value }
      #expect(error?.code == .collectionRunning)
    }
    mayEnd.increment()
    #expect(try await collection.value.get().wasStopped)
    #expect(try test.otherStore().contains("a"))
  }

  @Test func aLinkToADirectoryLeadsToTheSameCache() throws {
    try FileManager.default.createDirectory(atPath: test.root.string, withIntermediateDirectories: true)
    try FileManager.default.createSymbolicLink(
      atPath: test.outside.url("link").path, withDestinationPath: test.root.string)
    let first = try test.cache()
    let second = try BlobCache(directory: test.outside.path.appending("link"), configuration: test.configuration())
    #expect(first.store === second.store)
  }

  @Test func anotherConfigurationForTheSameDirectoryIsRefused() async throws {
    let cache = try test.cache()
    let error = await expect(.invalidConfiguration) { _ = try test.cache { $0.store.limits.size = 1 << 20 } }
    #expect(error?.message.contains("size limit") == true)
    await expect(.invalidConfiguration) { _ = try test.cache { $0.memory = nil } }
    try await cache.close()
    _ = try test.cache { $0.store.limits.size = 1 << 20 }
  }

  /// The settings that two caches on one directory must share.
  private static let settings: [(name: String, change: @Sendable (inout BlobCache.Configuration) -> Void)] = [
    ("layout", { $0.store.layout.naming = .sha256 }), ("format", { $0.store.format = .reference }),
    ("default expiration", { $0.store.expiry.defaultTimeToLive = .seconds(700) }),
    ("size limit", { $0.store.limits.size = 1 << 20 }), ("count limit", { $0.store.limits.count = 10 }),
    ("eviction target", { $0.store.limits.evictionTarget = 0.5 }),
    ("eviction", { $0.store.limits.eviction = .oldest }),
    ("collectsOnStore", { $0.store.limits.collectsOnStore = false }),
    ("recordsCollections", { $0.store.access.recordsCollections = false }),
    ("free space floor", { $0.store.limits.freeSpaceFloor = 1 }), ("maximum payload", { $0.store.limits.payload = 1 }),
    ("durability", { $0.store.durability = .full }), ("recycling", { $0.store.recycling = .off }),
    ("damage policy", { $0.store.damagePolicy = .remove }),
    ("sharing", { $0.store.access.sharing = .exclusive }),
    ("createsDirectory", { $0.store.access.createsDirectory = false }),
    ("access.allowsWorldWritable", { $0.store.access.allowsWorldWritable = true }),
    ("recordsConfiguration", { $0.store.access.recordsConfiguration = false }),
    ("lock timeout", { $0.store.access.lockTimeout = .seconds(1) }),
    ("memory", { $0.memory?.byteLimit = 1 }), ("way of writing", { $0.writing = .behind(.init()) }),
    ("touch interval", { $0.touchInterval = .seconds(1) }), ("excludesFromBackups", { $0.excludesFromBackups = false }),
  ]

  @Test(arguments: settings.indices) func aSettingThatDiffersIsNamed(index: Int) async throws {
    let cache = try test.cache()
    let setting = Self.settings[index]
    let error = await expect(.invalidConfiguration) { _ = try test.cache(setting.change) }
    #expect(error?.message.contains(setting.name) == true)
    #expect(error?.path == test.root)
    try await cache.close()
  }

  @Test func cachesOfSeveralDirectoriesAreApart() async throws {
    let first = try test.cache()
    let second = try BlobCache(
      directory: test.outside.path.appending("second"), configuration: test.configuration())
    try await first.store(payload(10), for: "a")
    #expect(try await second.load("a") == nil)
  }

  @Test func aClosedCacheRefusesAll() async throws {
    let cache = try test.cache()
    try await cache.store(payload(10), for: "a")
    try await cache.close()
    try await cache.close()
    #expect(cache.isClosed)
    #expect(cache.threadCount == 0)
    #expect(cache.blobInMemory(for: "a") == nil)
    await expect(.closed) { _ = try await cache.load("a") }
    await expect(.closed) { _ = try await cache.load(["a"]) }
    await expect(.closed) { _ = try await cache.load("a") { payload(1) } }
    await expect(.closed) { try await cache.store(payload(1), for: "a") }
    await expect(.closed) { try await cache.remove("a") }
    await expect(.closed) { try await cache.lock("a") }
    await expect(.closed) { _ = try await cache.usage() }
    await expect(.closed) { try await cache.collect() }
    await expect(.closed) { try await cache.flush() }
    await expect(.closed) { for try await _ in cache.records() {} }
  }

  @Test func whatIsUnderWayWhenACacheIsClosedIsFinished() async throws {
    let cache = try test.cache()
    for number in 0..<50 { try await cache.store(payload(10), for: BlobKey("key \(number)")) }
    cache.removeAllFromMemory()
    test.disk.hold(.read)
    let loads = (0..<50).map { number in Task { try await cache.load(BlobKey("key \(number)")) } }
    try await test.disk.waitForHeld(4)
    let closing = Task { try await cache.close() }
    try await until { cache.isClosed }
    test.disk.letGo()
    try await closing.value
    for load in loads {
      // Loads that are too late throw an error, and every load ends.
      do {
        #expect(try await load.value != nil)
      } catch let error as BlobCacheError {
        #expect(error.code == .closed)
      }
    }
  }

  /// A close during another close returns only when all blobs are on disk.
  @Test func whoClosesACacheThatIsBeingClosedWaitsToo() async throws {
    let cache = try test.cache { $0.writing = .behind(.init()) }
    test.disk.hold(.publication)
    try await cache.store(payload(10), for: "a")
    let first = Task { try await cache.close() }
    try await until { cache.isClosed }
    let isOver = Counter()
    let others = (0..<3).map { _ in
      Task {
        try await cache.close()
        isOver.increment()
      }
    }
    // A close that does not wait would have returned by then.
    try await Task.sleep(for: .milliseconds(20))
    #expect(isOver.count == 0)
    test.disk.letGo()
    for task in others { try await task.value }
    #expect(try test.otherStore().load("a")?.payload == payload(10))
    #expect(cache.threadCount == 0)
    try await first.value
  }

  @Test func aCacheThatIsLetGoEndsItsThreads() async throws {
    weak var store: BlobStore?
    do {
      let cache = try test.cache()
      try await cache.store(payload(10), for: "a")
      _ = try await cache.load("b")
      try cache.scheduleCollection()
      store = cache.store
    }
    try await until { store == nil }
  }

  @Test func eventsEndWithTheCache() async throws {
    let cache = try test.cache()
    let events = cache.events
    try await cache.store(payload(10), for: "a")
    try await cache.close()
    var count = 0
    for await _ in events { count += 1 }
    #expect(count == 1)
    for await _ in cache.events { count += 1 }
    #expect(count == 1)
  }

  // MARK: - Locations of caches

  @Test func namesLieUnderThePlatformsDirectory() throws {
    let directory = try BlobCache.directory(named: "com.example/covers")
    #expect(directory.isAbsolute)
    #expect(directory.ends(with: "com.example/covers"))
    #if os(Linux)
      func found(_ environment: [String: String]) throws -> FilePath {
        try BlobCache.directory(named: "x", environment: environment)
      }
      #expect(try found(["XDG_CACHE_HOME": "/caches", "HOME": "/home/me"]) == "/caches/x")
      #expect(try found(["HOME": "/home/me"]) == "/home/me/.cache/x")
      #expect(try found(["XDG_CACHE_HOME": "relative", "HOME": "/home/me"]) == "/home/me/.cache/x")
      #expect(throws: BlobCacheError.self) { try found([:]) }
    #endif
  }

  @Test(arguments: ["", ".", "..", "a/../b", "/absolute", "nul\0byte"]) func aNameThatLeadsElsewhereIsRefused(
    name: String
  ) async {
    await expect(.noCacheDirectory) { _ = try BlobCache.directory(named: name) }
  }

  // MARK: - The tag

  @Test func theDirectoryIsTaggedAsACache() async throws {
    let cache = try test.cache()
    try await cache.store(payload(10), for: "a")
    let tag = try String(contentsOfFile: test.path("CACHEDIR.TAG"), encoding: .utf8)
    #expect(tag.hasPrefix("Signature: 8a477f597d28d172789f06886806bc55\n"))
    let usage = try await cache.usage()
    #expect(usage.records == 1)
    #expect(usage.foreignFiles == 0)
    #expect(usage.damagedFiles == 0)
    try await cache.removeAll(.all)
    #expect(FileManager.default.fileExists(atPath: test.path("CACHEDIR.TAG")))
  }

  @Test func aKeyNamedLikeTheTagIsARecordAllTheSame() async throws {
    let cache = try test.cache()
    try await cache.store(payload(10), for: "CACHEDIR.TAG")
    #expect(try test.otherStore().load("CACHEDIR.TAG")?.payload == payload(10))
    #expect(try await cache.usage().records == 1)
  }

  @Test(arguments: [(RecordNaming.encoded, false), (.verbatim, false), (.sha256, true)])
  func inTheFlatLayoutThereIsATagOnlyWhereItCannotBeARecord(naming: RecordNaming, isTagged: Bool) async throws {
    let layout = BlobStore.Configuration.Layout(naming: naming, arrangement: .flat)
    let cache = try test.cache { $0.store.layout = layout }
    try await cache.store(payload(10), for: "a")
    #expect(FileManager.default.fileExists(atPath: test.path("CACHEDIR.TAG")) == isTagged)
    try await cache.store(payload(10), for: "CACHEDIR.TAG")
    #expect(try await cache.load("CACHEDIR.TAG") != nil)
    let usage = try await cache.usage()
    #expect(usage.records == 2)
    #expect(usage.foreignFiles == 0)
  }

  @Test func aCacheThatBacksUpHasNoTag() async throws {
    let cache = try test.cache { $0.excludesFromBackups = false }
    try await cache.store(payload(10), for: "a")
    #expect(!FileManager.default.fileExists(atPath: test.path("CACHEDIR.TAG")))
  }
}
