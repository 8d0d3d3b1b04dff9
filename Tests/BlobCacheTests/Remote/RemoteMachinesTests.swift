@testable import BlobCache
import BlobRecord
import BlobStore
import Foundation
import Locks
import Posix
import TestSupport
import Testing

/// Spec/Remote.md, M: machines that share an engine learn of each other's changes.
@Suite(.timeLimit(.minutes(30))) struct RemoteMachinesTests {
  let first: TestCache
  let second: TestCache
  let engine = MemoryEngine()

  init() throws { (first, second) = (try TestCache(), try TestCache()) }

  private static let name = "test/v1/ke/key"

  private func count(_ request: MemoryEngine.Request) -> Int { engine.requests.filter { $0 == request }.count }

  // MARK: - Revalidation

  enum Way: CaseIterable { case load, loadMany, loadOrStore, reader }

  private func answer(of cache: BlobCache, by way: Way) async throws -> Data? {
    switch way {
    case .load: try await cache.load("key")?.payload
    case .loadMany: try await cache.load(["key"]).first?.result.get()?.payload
    case .loadOrStore: try await cache.load("key") { payload(1) }.payload
    case .reader:
      if let reader = try await cache.openReader(for: "key") {
        try await reader.read(0..<reader.byteCount)
      } else {
        nil
      }
    }
  }

  /// M1: memory answers within the interval. After it, the engine is asked for 64 bytes, and for all if they differ.
  @Test(arguments: Way.allCases) func anOldCopyIsAskedAbout(way: Way) async throws {
    let writer = try first.node(engine)
    let reader = try second.node(engine) { $0.remote?.revalidatesAfter = .seconds(30) }
    try await writer.store(payload(10), for: "key")
    for _ in 0..<2 { #expect(try await answer(of: reader, by: way) == payload(10)) }
    #expect(count(.get(Self.name)) == 1 && count(.head(Self.name)) == 0)
    second.uptime.advance(by: 31)
    for _ in 0..<2 { #expect(try await answer(of: reader, by: way) == payload(10)) }
    #expect(count(.get(Self.name)) == 1 && count(.head(Self.name)) == 1)
    try await writer.store(payload(20), for: "key")
    #expect(try await answer(of: reader, by: way) == payload(10))
    second.uptime.advance(by: 31)
    #expect(try await answer(of: reader, by: way) == payload(20))
    #expect(count(.get(Self.name)) == 2 && count(.head(Self.name)) == 2)
  }

  /// M2: if the engine fails or has dropped the object, the directory's copy is returned.
  @Test(arguments: Way.allCases, [true, false]) func withoutAWordTheCopyAnswers(way: Way, isGone: Bool) async throws {
    try await first.node(engine).store(payload(10), for: "key")
    let reader = try second.node(engine) { $0.remote?.revalidatesAfter = .seconds(30) }
    _ = try await reader.load("key")
    second.uptime.advance(by: 31)
    if isGone { engine.set(nil, Self.name) } else { engine.fault(.fail(.unreachable)) }
    #expect(try await answer(of: reader, by: way) == payload(10))
  }

  /// M2: an engine that has another blob's header, but not its payload, confirms no copy.
  @Test(arguments: Way.allCases) func aWordWithoutABlobIsNone(way: Way) async throws {
    let writer = try first.node(engine)
    try await writer.store(payload(10), for: "key")
    let reader = try second.node(engine) { $0.remote?.revalidatesAfter = .seconds(30) }
    _ = try await reader.load("key")
    try await writer.store(payload(20), for: "key")
    second.uptime.advance(by: 31)
    engine.fault { if case .get = $0 { .fail(.failed) } else { nil } }
    #expect(try await answer(of: reader, by: way) == payload(10))
    engine.fault(nil as MemoryEngine.Fault?)
    #expect(try await answer(of: reader, by: way) == payload(20))
  }

  /// M1, T19: a newer blob that cannot be stored in the directory is still returned.
  @Test func aNewerBlobThatCannotBeKeptIsAnswered() async throws {
    let writer = try first.node(engine)
    try await writer.store(payload(10), for: "key")
    let reader = try second.node(engine) {
      $0.remote?.revalidatesAfter = .seconds(30)
      $0.memory = nil
    }
    _ = try await reader.load("key")
    try await writer.store(payload(20), for: "key")
    second.uptime.advance(by: 31)
    second.disk.fail(.write, .ioError)
    for _ in 0..<2 { #expect(try await reader.load("key")?.payload == payload(20)) }
    second.disk.fail(.write, nil)
    #expect(try await reader.load("key")?.payload == payload(20))
    #expect(try reader.store.load("key")?.payload == payload(20))
  }

  /// The engine is not asked about blobs that are staged, or too large for it.
  @Test(arguments: Way.allCases, [true, false]) func whatIsNotThereIsNotAskedAbout(
    way: Way, isStaged: Bool
  ) async throws {
    engine.set(Data("other".utf8), Self.name)
    let cache = try first.node(engine) {
      $0.remote?.revalidatesAfter = .seconds(1)
      if isStaged {
        var behind = BlobCache.WriteBehind()
        behind.delay = .seconds(1000)
        $0.writing = .behind(behind)
        $0.remote?.writing = .behind
      } else {
        $0.remote?.payloadSizes = 0...4
      }
    }
    try await cache.store(payload(5), for: "key")
    first.uptime.advance(by: 9)
    // Opening a reader writes the staged blob first.
    if !(isStaged && way == .reader) { #expect(try await answer(of: cache, by: way) == payload(5)) }
    #expect(count(.head(Self.name)) == 0 && count(.get(Self.name)) == 0)
  }

  /// A locked record stays locked when it is superseded by the engine's blob.
  @Test func aLockedCopyIsReplacedAndStaysLocked() async throws {
    let writer = try first.node(engine)
    try await writer.store(payload(10), for: "key")
    let reader = try second.node(engine) { $0.remote?.revalidatesAfter = .seconds(30) }
    _ = try await reader.load("key")
    try await reader.lock("key")
    try await writer.store(payload(20), for: "key")
    second.uptime.advance(by: 31)
    #expect(try await reader.load("key")?.payload == payload(20))
    #expect(try await reader.header(for: "key")?.refCount == 1)
  }

  /// A blob that waits for its upload is newer than the engine's blob.
  @Test func whatWaitsIsNotAskedAbout() async throws {
    let cache = try first.node(engine) {
      $0.remote?.revalidatesAfter = .seconds(1)
      $0.remote?.writing = .behind
    }
    let gate = Latch()
    engine.hold { request in if case .put = request { await gate.wait() } }
    try await cache.store(payload(5), for: "key")
    first.uptime.advance(by: 9)
    #expect(try await cache.load("key")?.payload == payload(5))
    #expect(count(.head(Self.name)) == 0)
    gate.open()
  }

  // MARK: - Announcements

  private func listening(_ machine: TestCache) async throws -> BlobCache {
    let before = engine.listenerCount
    let cache = try machine.node(engine) { $0.remote?.announcesChanges = true }
    try await until { engine.listenerCount == before + 1 }
    return cache
  }

  /// M4: a store or a removal on one machine removes the copies of the others.
  @Test func machinesDropWhatOthersHaveChanged() async throws {
    let (one, other) = (try await listening(first), try await listening(second))
    #expect(try await other.load("key") == nil)
    try await one.store(payload(10), for: "key")
    // The remembered absence is forgotten.
    try await until { try await other.load("key")?.payload == payload(10) }
    try await one.store(payload(20), for: "key")
    try await until { try await other.load("key")?.payload == payload(20) }
    // The machine's own copies remain.
    #expect(one.blobInMemory(for: "key")?.payload == payload(20))
    _ = try await one.removeEverywhere("key")
    try await until { try await other.load("key") == nil }
  }

  @Test func aLockedCopyStays() async throws {
    let (one, other) = (try await listening(first), try await listening(second))
    try await one.store(payload(10), for: "locked")
    try await one.store(payload(10), for: "key")
    for key: BlobKey in ["locked", "key"] {
      // A blob that is fetched while an announcement arrives is returned, but not stored.
      try await until {
        _ = try await other.load(key)
        return try other.store.contains(key)
      }
    }
    #expect(try await other.lock("locked") == .done)
    try await one.store(payload(20), for: "locked")
    // Announcements are handled in order.
    try await until { engine.requests.filter { $0 == .announce }.count == 3 }
    try await one.store(payload(20), for: "key")
    try await until { try await other.load("key")?.payload == payload(20) }
    #expect(try await other.load("locked")?.payload.count == 10)
  }

  /// A store that is newer than the announcement remains, staged or on disk.
  @Test(arguments: [true, false]) func anAnnouncementTakesNoYoungerStore(isStaged: Bool) async throws {
    let cache = try first.node(engine) {
      $0.remote?.announcesChanges = true
      $0.remote?.writing = .behind
      if isStaged { $0.writing = .behind(BlobCache.WriteBehind()) }
    }
    try await until { engine.listenerCount == 1 }
    let gate = Latch()
    try await cache.store(payload(1), for: "last")
    try await cache.flush()
    #expect(await cache.remoteOutcome(of: "last") == .done)
    engine.hold { request in if request == .put(Self.name) { await gate.wait() } }
    try await cache.store(payload(5), for: "key")
    engine.say(Announcement(sender: "x", key: "key", checksum: nil).text)
    engine.say(Announcement(sender: "x", key: "last", checksum: nil).text)
    // Announcements are handled in order.
    try await until { try cache.store.contains("last") == false }
    #expect(try await cache.load("key")?.payload == payload(5))
    gate.open()
    _ = await cache.remoteOutcome(of: "key")
    #expect(engine.objects[Self.name]?.dropFirst(64) == payload(5))
    #expect(try await cache.load("key")?.payload == payload(5))
  }

  /// A text of another program or of the same machine changes nothing.
  @Test(
    arguments: [
      "", "hello", "blobcache1 x put 0", "blobcache1 x put zz a2V5", "blobcache1 x remove 0 a2V5",
      "blobcache1 x remove - !!", "blobcache2 x remove - a2V5", "blobcache1 x remove - /w==",
      String(repeating: "a", count: 200_000),
    ])
  func whatIsNoAnnouncementIsPassedOver(text: String) async throws {
    #expect(Announcement(text) == nil)
    let cache = try await listening(first)
    try await cache.store(payload(1), for: "key")
    try await cache.store(payload(1), for: "last")
    engine.say(text)
    engine.say(Announcement(sender: "x", key: "last", checksum: nil).text)
    try await until { try cache.store.contains("last") == false }
    #expect(try cache.store.contains("key"))
  }

  @Test(arguments: ["", "key", "ä b", String(repeating: "long", count: 16_384)], [nil, 0, .max] as [UInt32?])
  func anAnnouncementIsAText(key: String, checksum: UInt32?) {
    let announcement = Announcement(sender: "1", key: BlobKey(key), checksum: checksum)
    #expect(Announcement(announcement.text) == announcement)
  }

  /// M5: the cache listens again, and asks the engine about all blobs whose announcements it may have missed.
  @Test func aBrokenConnectionIsMadeAgain() async throws {
    let cache = try second.node(engine) {
      $0.remote?.announcesChanges = true
      $0.remote?.revalidatesAfter = .seconds(1 << 20)
      $0.remote?.breaker.longestPause = .milliseconds(1)
    }
    try await until { engine.listenerCount == 1 }
    let writer = try first.node(engine)
    try await writer.store(payload(10), for: "key")
    #expect(try await cache.load("key")?.payload == payload(10))
    // An announcement that is handled proves that the cache listens.
    try await writer.store(payload(1), for: "probe")
    #expect(try await cache.load("probe") != nil)
    engine.say(Announcement(sender: "x", key: "probe", checksum: nil).text)
    try await until { try cache.store.contains("probe") == false }
    _ = try await cache.load("key")
    try await writer.store(payload(20), for: "key")
    #expect(try await cache.load("key")?.payload == payload(10))
    let before = engine.listenCount
    engine.breakListeners()
    try await until { engine.listenCount > before && engine.listenerCount == 1 }
    try await until { try await cache.load("key")?.payload == payload(20) }
    try await cache.close()
    try await until { engine.listenerCount == 0 }
  }

  @Test(arguments: [true, false]) func anEngineThatCannotIsRefused(leases: Bool) throws {
    let error = #expect(throws: BlobCacheError.self) {
      try first.cache { configuration in
        var tier = RemoteTier(PlainEngine(), namespace: RemoteNamespace("test"))
        if leases { tier.leases = .init() } else { tier.announcesChanges = true }
        configuration.remote = tier
      }
    }
    #expect(error?.code == .invalidConfiguration)
  }

  // MARK: - Leases

  /// M6: one of the machines that miss a blob concurrently produces it, and the others fetch it.
  @Test(arguments: [true, false]) func oneOfManyMachinesProduces(areBehind: Bool) async throws {
    let produced = Counter()
    let machines = try (0..<4).map { _ in try TestCache() }
    let caches = try machines.map { machine in
      try machine.node(engine) {
        $0.remote?.leases = .init()
        $0.remote?.leases?.waits = .seconds(600)
        $0.remote?.writing = areBehind ? .behind : .through
      }
    }
    let gate = Latch()
    let loads = caches.map { cache in
      Task {
        try await cache.load("key") {
          produced.increment()
          await gate.wait()
          return payload(9)
        }.payload
      }
    }
    try await until { produced.count == 1 && count(.lease(Self.name)) >= 4 }
    gate.open()
    for load in loads { #expect(try await load.value == payload(9)) }
    #expect(produced.count == 1)
    try await until { engine.leaseCount == 0 }
  }

  /// M6: if a machine holds the lease for too long, or the engine fails, the blob is produced more than once.
  @Test(arguments: [true, false]) func withoutALeaseItIsProducedAllTheSame(isTaken: Bool) async throws {
    if isTaken {
      _ = try await engine.acquireLease(RemoteName(Self.name), as: "another", for: .seconds(1))
    } else {
      engine.fault { if case .lease = $0 { .fail(.failed) } else { nil } }
    }
    let cache = try first.node(engine) {
      $0.remote?.leases = .init()
      $0.remote?.leases?.waits = .milliseconds(50)
    }
    #expect(try await cache.load("key") { payload(3) }.payload == payload(3))
    #expect(engine.leaseCount == (isTaken ? 1 : 0))
  }

  @Test func aProducerThatFailsGivesTheLeaseBack() async throws {
    let cache = try first.node(engine) { $0.remote?.leases = .init() }
    await #expect(throws: CancellationError.self) { try await cache.load("key") { throw CancellationError() } }
    try await until { engine.leaseCount == 0 }
    #expect(count(.lease(Self.name)) == 1)
  }

  // MARK: - Age

  /// M7: a refresh takes the blob that another machine has produced, and runs no producer.
  @Test func aRefreshTakesWhatAnotherMachineHasMade() async throws {
    var options = ProductionOptions(ttl: .seconds(1000))
    options.refreshesAfter = .seconds(10)
    let (one, other) = (try first.node(engine), try second.node(engine))
    let produced = Counter()
    func load(_ cache: BlobCache) async throws -> Data {
      try await cache.load("key", options: options) {
        produced.increment()
        return payload(produced.count)
      }.payload
    }
    #expect(try await load(one) == payload(1))
    #expect(try await load(other) == payload(1))
    for machine in [first, second] { machine.clock.advance(by: 11) }
    #expect(try await load(one) == payload(1))
    try await until { try await one.load("key")?.payload == payload(2) && one.productionCount == 0 }
    _ = await one.remoteOutcome(of: "key")
    #expect(try await load(other) == payload(1))
    try await until { try await other.load("key")?.payload == payload(2) && other.productionCount == 0 }
    #expect(produced.count == 2)
  }

  /// R8: blobs that are fetched stay on an engine that removes objects by age, because they are written again.
  @Test(arguments: [(nil, 0), (-1, 0), (-100, 1)] as [(Int64?, Int)], [10, 2 << 20])
  func R8_whatIsUsedIsWrittenAgain(age: (time: Int64?, puts: Int), byteCount: Int) async throws {
    try await first.node(engine).store(payload(byteCount), for: "key", ttl: .seconds(5000))
    engine.setModified(age.time.map { second.clock.now.advanced(bySeconds: $0) })
    let before = try #require(engine.objects[Self.name])
    for opens in [true, false] {
      let cache = try TestCache().node(engine) { $0.remote?.rewritesAfter = .seconds(50) }
      if opens {
        #expect(try await cache.openReader(for: "key") != nil)
      } else {
        #expect(try await cache.load("key") != nil)
      }
      _ = await cache.remoteOutcome(of: "key")
    }
    #expect(count(.put(Self.name)) == 1 + 2 * age.puts)
    #expect(count(.remove(Self.name)) == 0)
    #expect(engine.objects[Self.name] == before)
  }
}

/// An engine that implements only the required methods.
private struct PlainEngine: RemoteEngine {
  let name = "plain://"
  func get(_ name: RemoteName) async throws -> RemoteObject? { nil }
  func put(_ record: RemoteRecord, as name: RemoteName) async throws {}
  func remove(_ name: RemoteName) async throws {}
  func list(_ prefix: RemoteName, page: String?) async throws -> RemotePage { RemotePage(names: []) }
  func capabilities(under prefix: RemoteName) async throws -> RemoteCapabilities { RemoteCapabilities() }
  func close() async {}
}
