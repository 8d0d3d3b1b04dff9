import BlobCache
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Trims, wipes with progress, and records as files: the cache's part, which the store's tests do not cover.
@Suite struct UpkeepTests {
  let test: TestCache
  let cache: BlobCache

  init() throws {
    test = try TestCache()
    // Each removal is a single call that can be held.
    cache = try test.cache { $0.store.recycling = .off }
  }

  private func fill(_ count: Int) async throws {
    for number in 0..<count {
      try await cache.store(payload(36), for: BlobKey("\(number)"))
      test.clock.advance(by: 1)
    }
  }

  @Test func whatATrimRemovesIsNotInMemoryEither() async throws {
    try await fill(10)
    #expect(try await cache.trim(to: .recordCount(6)).evicted == 4)
    #expect(cache.blobInMemory(for: "3", touching: false) == nil)
    #expect(cache.blobInMemory(for: "4", touching: false) != nil)
    #expect(try await cache.load("3") == nil)
    #expect(try await cache.trim(to: .byteCount(350)).recordsAfter == 3)
    #expect(cache.blobInMemory(for: "6", touching: false) == nil)
    #expect(try await cache.trim(to: .updatedSince(test.clock.now)).recordsAfter == 0)
  }

  @Test func aTrimGoesByTheUsesThatMemoryKnowsOf() async throws {
    try await fill(3)
    #expect(cache.blobInMemory(for: "0") != nil)
    try await cache.trim(to: .recordCount(1))
    #expect(try await cache.load("0") != nil)
    #expect(try await cache.load("2") == nil)
  }

  @Test func aTrimCountsWhatIsStaged() async throws {
    let test = try TestCache()
    let cache = try test.cache { $0.writing = .behind(.init()) }
    for number in 0..<5 { try await cache.store(payload(36), for: BlobKey("\(number)")) }
    #expect(try await cache.trim(to: .recordCount(2)).recordsAfter == 2)
    #expect(try await cache.usage().records == 2)
  }

  @Test func aWipeTellsHowFarItHasCome() async throws {
    try await fill(300)
    let told = Log<BlobStore.RemovalProgress>()
    var options = BlobStore.RemovalOptions()
    options.progress = { told.append($0) }
    let report = try await cache.removeAll(.all, options)
    #expect(told.all.map(\.examined) == [256, 300])
    #expect(told.all.last?.removed == report)
    #expect(report.files == 300)
  }

  /// The first removal is held while the task is cancelled.
  @Test(arguments: ["removeAll", "trim", "collect"]) func aCancelledTaskEndsWhatItWaitsFor(verb: String) async throws {
    try await fill(20)
    test.clock.advance(by: verb == "collect" ? 10_000 : 0)
    test.disk.hold(.unlink)
    let task = Task { [cache] in
      switch verb {
      case "removeAll":
        let report = try await cache.removeAll(.all)
        return (report.files, report.wasStopped)
      case "trim":
        let report = try await cache.trim(to: .payloads(upTo: 0))
        return (report.evicted, report.wasStopped)
      default:
        let report = try await cache.collect()
        return (report.expired, report.wasStopped)
      }
    }
    try await test.disk.waitForHeld(1)
    task.cancel()
    test.disk.letGo()
    let (removed, wasStopped) = try await task.value
    #expect(removed == 1)
    #expect(wasStopped)
    #expect(try await cache.usage().records == 19)
  }

  @Test func aRecordIsAFileThatCanBeHeld() async throws {
    let test = try TestCache()
    let cache = try test.cache {
      var writeBehind = BlobCache.WriteBehind()
      writeBehind.delay = .seconds(60)
      $0.writing = .behind(writeBehind)
      $0.store.access.lockTimeout = .milliseconds(20)
    }
    try await cache.store(payload(10), for: "abc")
    #expect(try cache.filePath(for: "abc") == test.root.appending("ab/abc"))
    var configuration = test.storeConfiguration
    configuration.access.lockTimeout = .milliseconds(20)
    let hasty = try BlobStore(directory: test.root, configuration: configuration)
    let content = try await cache.withExclusiveAccess(to: "abc") { path in
      #expect { try hasty.remove("abc") } throws: { ($0 as? BlobStoreError)?.code == .busy }
      return try Data(contentsOf: URL(filePath: path.string))
    }
    #expect(content.dropFirst(64) == payload(10)[...])
    await expect(.closed) {
      try await cache.close()
      _ = try cache.filePath(for: "abc")
    }
  }

  @Test func verbsOfManyKeysAnswerForEachKey() async throws {
    try await fill(4)
    #expect(try await cache.usage().records == 4)
    #expect(try await cache.usageEstimate()?.records ?? 4 == 4)
    #expect(try await cache.lock(["0", "9"]).map { try $0.result.get() } == [.done, .notFound])
    #expect(try await cache.unlock(["0", "1"]).map { try $0.result.get() } == [.done, .notLocked])
    #expect(try await cache.touch(["0", "9"]).map { try $0.result.get() } == [.done, .notFound])
    #expect(try await cache.remove(["0", "9"]).map { try $0.result.get() } == [.done, .notFound])
    let file = test.outside.url("file")
    try payload(5).write(to: file)
    #expect(try await cache.store(contentsOf: FilePath(file.path), for: "file") == 5)
    try await cache.flush("file")
    #expect(try await cache.load("file")?.payload == payload(5))
    #expect(try await cache.removeAll(.unlocked).files == 4)
  }
}
