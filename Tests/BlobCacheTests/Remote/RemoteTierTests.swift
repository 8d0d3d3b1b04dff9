@testable import BlobCache
import BlobRecord
import BlobStore
import Foundation
import Locks
import TestSupport
import Testing

/// Spec/Remote.md: the operations of a cache with a remote tier that several machines share.
@Suite(.timeLimit(.minutes(30))) struct RemoteTierTests {
  let first: TestCache
  let second: TestCache
  let engine = MemoryEngine()

  init() throws { (first, second) = (try TestCache(), try TestCache()) }

  /// T1: the object is the complete and valid record of its key.
  @Test(
    arguments: [nil, Data("image/png".utf8)], [BlobKey("a/b"), "x", BlobKey(String(repeating: "long ", count: 99))])
  func aStoredBlobIsARecordThere(extendedData: Data?, key: BlobKey) async throws {
    let cache = try first.node(engine)
    try await cache.store(payload(100), for: key, ttl: .seconds(60), locks: .one, extendedData: extendedData)
    let place = try RemoteNamespace("test").place(of: key)
    let bytes = try #require(engine.objects[place.name.string])
    var facts = RecordFacts(fileSize: Int64(bytes.count), nameDigest: place.digest)
    facts.bodyByteCount = Int64(bytes.count - 64)
    let verdict = RecordJudge().judge(bytes.bytes, facts, body: Data(bytes.dropFirst(64)).bytes)
    let header = try #require(verdict.soundHeader)
    #expect(header.refCount == 0 && header.ttl == 60)
    #expect(header.payloadChecksum == CRC32.checksum(of: payload(100).bytes))
    #expect(header.keyDigest == place.digest)
    #expect(place.name.string.hasPrefix("test/v1/"))
    #expect(try await cache.header(for: key)?.refCount == 1)
  }

  /// T2, T3: another machine loads and stores the blob, which expires there at the same time.
  @Test(arguments: [RecordNaming.encoded, .sha256], [RecordNaming.encoded, .sha256, .verbatim])
  func anotherMachineLoadsIt(remote: RecordNaming, local: RecordNaming) async throws {
    func node(_ machine: TestCache) throws -> BlobCache {
      try machine.node(engine) { configuration in
        configuration.remote?.namespace = RemoteNamespace("test", naming: remote)
        configuration.store.layout.naming = local
        if local == .verbatim { configuration.store.format = .reference }
      }
    }
    let key: BlobKey = "the key"
    try await node(first).store(payload(5000), for: key, ttl: .seconds(60))
    second.clock.advance(by: 40)
    let cache = try node(second)
    let blob = try #require(try await cache.load(key))
    #expect(blob.payload == payload(5000))
    #expect(blob.header.ttl == 60)
    #expect(blob.header.lastUpdate == first.clock.now)
    // From here on, the record is stored in the directory.
    let header = try #require(try cache.store.header(for: key))
    #expect(header.updateTime == blob.header.updateTime && header.refCount == 0)
    #expect(cache.remoteStatus?.hits == 1)
    engine.set(nil, try #require(engine.objects.keys.first))
    #expect(try await cache.load(key)?.payload == payload(5000))
    second.clock.advance(by: 21)
    #expect(try await cache.load(key) == nil)
    #expect(cache.remoteStatus?.misses == 1)
  }

  /// Small blobs are stored in packs on each machine, and are sent like other blobs: whole, in parts and as streams.
  @Test(arguments: [0, 5, 5000, 9000]) func smallBlobsOfTheTierArePacked(byteCount: Int) async throws {
    func node(_ machine: TestCache) throws -> BlobCache {
      try machine.node(engine) { $0.store.packing = .upTo(8192) }
    }
    let (one, other) = (try node(first), try node(second))
    let isPacked = byteCount < 8192
    try await one.store(payload(byteCount), for: "key", ttl: .seconds(60), extendedData: Data([1, 2]))
    #expect(try one.store.usage().packedRecords == (isPacked ? 1 : 0))
    let blob = try #require(try await other.load("key"))
    #expect(blob.payload == payload(byteCount))
    #expect(blob.extendedData == Data([1, 2]))
    #expect(try other.store.usage().packedRecords == (isPacked ? 1 : 0))
    #expect(try await other.header(for: "key")?.payloadSize == UInt64(byteCount))
    if byteCount > 4 {
      let reader = try #require(try await other.openReader(for: "key"))
      #expect(try await reader.read(1..<4) == payload(byteCount)[1..<4])
    }
    // A streamed blob is packed, too, if its payload turns out to be small.
    let writer = try await one.openWriter(for: "stream", ttl: .seconds(60))
    try await writer.append(payload(byteCount))
    try await writer.commit()
    #expect(try one.store.usage().packedRecords == (isPacked ? 2 : 0))
    #expect(try await other.load("stream")?.payload == payload(byteCount))
    #expect(try other.store.usage().packedRecords == (isPacked ? 2 : 0))
    let (here, there) = try await other.removeEverywhere("key")
    #expect(here == .done && there == .done)
    for cache in [other, try node(try TestCache())] { #expect(try await cache.load("key") == nil) }
  }

  /// T2: a record without a time to live has the default of the storing machine.
  @Test func aDefaultExpirationIsMadeExplicit() async throws {
    let cache = try first.node(engine) { $0.store.expiry.defaultTimeToLive = .seconds(77) }
    try await cache.store(payload(1), for: "key")
    let found = try await second.node(engine).load("key")
    #expect(found?.header.ttl == 77)
  }

  @Test func whatIsExpiredThereIsAMiss() async throws {
    try await first.node(engine).store(payload(1), for: "key", ttl: .seconds(5))
    second.clock.advance(by: 6)
    #expect(try await second.node(engine).load("key") == nil)
  }

  /// T4: concurrent loads share one request, and each of them returns the blob.
  @Test func oneRequestAnswersAll() async throws {
    try await first.node(engine).store(payload(9), for: "key")
    let gate = Latch()
    engine.hold { _ in await gate.wait() }
    let cache = try second.node(engine)
    let loads = (0..<20).map { _ in Task { try await cache.load("key")?.payload } }
    try await until { engine.requests.filter { $0 == .get("test/v1/ke/key") }.count == 1 }
    gate.open()
    for load in loads { #expect(try await load.value == payload(9)) }
    #expect(engine.requests.filter { $0 == .get("test/v1/ke/key") }.count == 1)
  }

  /// T5: a producer runs only for a blob that the tier does not have, and its blob is uploaded.
  @Test func theTierIsAskedBeforeTheProducer() async throws {
    let produced = Counter()
    let make = { @Sendable () async throws -> Data in
      produced.increment()
      return payload(7)
    }
    let one = try first.node(engine)
    #expect(try await one.load("key", orStore: make).payload == payload(7))
    _ = await one.remoteOutcome(of: "key")
    #expect(try await second.node(engine).load("key", orStore: make).payload == payload(7))
    #expect(produced.count == 1)
  }

  /// T6: an absence is remembered until it expires or the key is stored locally.
  @Test func anAbsenceIsRemembered() async throws {
    let cache = try first.node(engine)
    for _ in 0..<3 { #expect(try await cache.load("key") == nil) }
    #expect(engine.requests == [.get("test/v1/ke/key")])
    first.uptime.advance(by: 6)
    #expect(try await cache.load("key") == nil)
    #expect(engine.requests.count == 2)
    try await second.node(engine).store(payload(1), for: "key")
    #expect(try await cache.load("key") == nil)
    first.uptime.advance(by: 6)
    #expect(try await cache.load("key") != nil)
  }

  /// T7: a removal is sent to the engine, and no fetch restores the blob.
  @Test func aRemovalGoesThere() async throws {
    let cache = try first.node(engine)
    try await cache.store(payload(1), for: "key")
    let (here, there) = try await cache.removeEverywhere("key")
    #expect(here == .done && there == .done)
    #expect(engine.objects.isEmpty)
    #expect(try await cache.load("key") == nil)
    #expect(cache.remoteStatus?.removals == 1)
  }

  /// T7: a blob whose removal failed on the engine is not returned, and is removed later.
  @Test func aRemovalThatFailsIsTriedAgain() async throws {
    let cache = try first.node(engine) { $0.remote?.breaker.failures = 100 }
    try await cache.store(payload(1), for: "key")
    let isDown = Lock(true)
    engine.fault { request in
      guard case .remove = request, isDown.withLock({ $0 }) else { return nil }
      return .fail(.failed)
    }
    let (here, there) = try await cache.removeEverywhere("key")
    #expect(here == .done && there == .postponed)
    #expect(try await cache.load("key") == nil)
    #expect(engine.requests.allSatisfy { $0 != .get("test/v1/ke/key") })
    isDown.withLock { $0 = false }
    try await until { engine.objects.isEmpty }
  }

  /// T8: a fetch that is superseded by a store or a removal changes nothing in the directory.
  @Test(arguments: [true, false]) func aFetchIsSuperseded(byStore: Bool) async throws {
    try await first.node(engine).store(payload(1), for: "key")
    let gate = Latch()
    engine.hold { request in if case .get = request { await gate.wait() } }
    let cache = try second.node(engine)
    let load = Task { try await cache.load("key")?.payload }
    try await until { engine.requests.contains(.get("test/v1/ke/key")) }
    if byStore { try await cache.store(payload(2), for: "key") } else { try await cache.remove("key") }
    gate.open()
    _ = try await load.value
    #expect(try await cache.load("key")?.payload == (byStore ? payload(2) : nil))
    #expect(try cache.store.load("key")?.payload == (byStore ? payload(2) : nil))
  }

  /// T9, R12: the mode limits the use of the engine, but not of the directory.
  @Test(arguments: [RemoteTier.Mode.readWrite, .readOnly, .writeOnly]) func aModeIsKept(
    mode: RemoteTier.Mode
  ) async throws {
    try await first.node(engine).store(payload(1), for: "there")
    let cache = try second.node(engine) { $0.remote?.mode = mode }
    #expect(try await cache.load("there")?.payload == (mode == .writeOnly ? nil : payload(1)))
    try await cache.store(payload(2), for: "here")
    #expect(try await cache.load("here")?.payload == payload(2))
    #expect(try cache.store.load("here")?.payload == payload(2))
    #expect(engine.objects["test/v1/he/here"] != nil || mode == .readOnly)
    _ = try await cache.removeEverywhere("there")
    #expect((engine.objects["test/v1/th/there"] != nil) == (mode == .readOnly))
  }

  /// T10: payloads outside the range of sizes are not uploaded.
  @Test(arguments: [9, 10, 20, 21]) func onlyTheSizesThatAreAskedForGoThere(size: Int) async throws {
    let cache = try first.node(engine) { $0.remote?.payloadSizes = 10...20 }
    try await cache.store(payload(size), for: "key")
    #expect(engine.objects.count == ((10...20).contains(size) ? 1 : 0))
    #expect(try await cache.load("key") != nil)
  }

  /// Every call that stores a blob uploads it.
  @Test func everyWayToStoreLeadsThere() async throws {
    let cache = try first.node(engine)
    let writer = try await cache.openWriter(for: "written")
    try await writer.append(payload(300))
    try await writer.commit()
    try await cache.store(payload(3), for: "described", extendedData: Data("old".utf8))
    try await cache.setExtendedData(Data("text/plain".utf8), for: "described")
    let file = first.outside.path.appending("file")
    try payload(77).write(to: URL(filePath: file.string))
    try await cache.store(contentsOf: file, for: "file")
    for key in ["written", "described", "file"] as [BlobKey] { _ = await cache.remoteOutcome(of: key) }
    // Reading a record for its upload does not count as a load.
    #expect(try await cache.traffic().hits == 0)
    let other = try second.node(engine)
    #expect(try await other.load("written")?.payload == payload(300))
    #expect(try await other.load("file")?.payload == payload(77))
    #expect(try await other.load("described")?.extendedData == Data("text/plain".utf8))
    let reader = try await second.node(engine).openReader(for: "written")
    #expect(reader?.byteCount == 300)
  }

  @Test func manyKeysAreFetchedToo() async throws {
    let cache = try first.node(engine)
    let keys = (0..<100).map { BlobKey("key \($0)") }
    for key in keys { try await cache.store(payload(4), for: key) }
    let results = try await second.node(engine).load(keys + ["none"])
    #expect(results.map(\.key) == keys + ["none"])
    #expect(try results.dropLast().allSatisfy { try $0.result.get()?.payload == payload(4) })
    #expect(try results.last?.result.get() == nil)
  }

  /// Each load reports one hit or one miss, of the tier that answered.
  @Test func eachLoadIsToldOnce() async throws {
    try await first.node(engine).store(payload(1), for: "key")
    let cache = try second.node(engine)
    var events = cache.events.makeAsyncIterator()
    _ = try await cache.load("key")
    _ = try await cache.load("key")
    _ = try await cache.load("none")
    var told: [String] = []
    while told.count < 4, let event = await events.next() { told.append("\(event.kind)") }
    #expect(
      told == ["fetched", "hit(BlobCache.CacheEvent.Tier.remote)", "hit(BlobCache.CacheEvent.Tier.memory)", "miss"])
  }

  /// A load that returns another machine's newer blob reports a hit of the remote tier.
  @Test(arguments: [true, false]) func aNewerBlobIsToldAsAHit(mayProduce: Bool) async throws {
    let writer = try first.node(engine)
    let reader = try second.node(engine) { $0.remote?.revalidatesAfter = .seconds(30) }
    try await writer.store(payload(1), for: "key")
    _ = try await reader.load("key")
    second.uptime.advance(by: 31)
    try await writer.store(payload(2), for: "key")
    var events = reader.events.makeAsyncIterator()
    let found = mayProduce ? try await reader.load("key") { payload(3) } : try await reader.load("key")
    #expect(found?.payload == payload(2))
    _ = try await reader.load("none")
    var told: [String] = []
    while told.last != "miss", let event = await events.next() { told.append("\(event.kind)") }
    #expect(told == ["fetched", "hit(BlobCache.CacheEvent.Tier.remote)", "miss"])
  }

  /// T11: a prefix is removed on the engine only if the caller asks for it, and then for all machines.
  @Test(arguments: ["al", "album/", "a", "album/1"]) func aPrefixIsRemovedThereWhenThatIsAsked(
    prefix: String
  ) async throws {
    let (one, other) = (try first.node(engine), try second.node(engine))
    for key in ["album/1", "album/2 ä", "song"] { try await one.store(payload(5), for: BlobKey(key)) }
    try await other.store(payload(5), for: "album/10")
    let before = engine.objects.count
    #expect(try await one.remove(prefix: "album/1").files == 1)
    #expect(engine.objects.count == before)
    #expect(try await one.load("album/1") != nil)
    let report = try await one.removeEverywhere(prefix: prefix)
    let wanted = prefix == "album/1" ? 2 : 3
    #expect(report.here.files == Int64(wanted - 1))
    #expect(report.there == removal(wanted))
    #expect(engine.objects.count == before - wanted)
    #expect(try await second.node(engine).load("song") != nil)
  }

  private func removal(_ removed: Int) -> RemotePrefixRemoval {
    var removal = RemotePrefixRemoval()
    removal.removed = removed
    return removal
  }

  @Test func aPrefixOfHiddenKeysIsNotRemovedThere() async throws {
    let cache = try first.node(engine) { $0.remote?.namespace = RemoteNamespace("test", naming: .sha256) }
    let error = await #expect(throws: RemoteError.self) { try await cache.removeEverywhere(prefix: "a") }
    #expect(error?.kind == .unsupported)
  }

  /// T9: a staged blob is uploaded once it is stored in the directory.
  @Test func whatIsStagedGoesThereLater() async throws {
    var behind = BlobCache.WriteBehind()
    behind.delay = .seconds(100_000)
    let cache = try first.node(engine) {
      $0.writing = .behind(behind)
      $0.remote?.writing = .behind
    }
    try await cache.store(payload(6), for: "key")
    #expect(engine.requests.isEmpty)
    try await cache.flush()
    _ = await cache.remoteOutcome(of: "key")
    #expect(try await second.node(engine).load("key")?.payload == payload(6))
    try await cache.close()
    #expect(engine.isClosed)
    #expect(engine.requests.filter { $0 == .put("test/v1/ke/key") }.count == 1)
  }

  /// Requests to the engine are counted for all processes of the directory, even before its first record.
  @Test func theDirectoryCountsTheTier() async throws {
    try await first.node(engine).store(payload(6), for: "key")
    let cache = try second.node(engine)
    let store = cache.store
    #expect(try await cache.load("key") != nil)
    var wanted = BlobStore.RemoteTraffic()
    (wanted.hits, wanted.bytesLoaded) = (1, 6)
    #expect(try await cache.traffic().remote == wanted)
    #expect(try await cache.load("other") == nil)
    try await cache.store(payload(7), for: "another")
    engine.fault { if case .remove = $0 { .fail(.unsupported) } else { nil } }
    #expect(try await cache.removeEverywhere("another").there == .dropped)
    (wanted.misses, wanted.stores, wanted.bytesStored, wanted.failures, wanted.dropped) = (1, 1, 7, 1, 1)
    #expect(try store.traffic().remote == wanted)
    try await cache.close()
    #expect(try store.traffic().remote == wanted)
  }

  @Test(arguments: ["", "/", "a//b", "a/../b", ".", "a b", "a\n"]) func aNamespaceThatIsNoneIsRefused(
    name: String
  ) async throws {
    await expect(.invalidConfiguration) {
      _ = try first.node(engine) { $0.remote?.namespace = RemoteNamespace(name) }
    }
  }

  @Test func twoCachesOnADirectoryHaveOneTier() async throws {
    let cache = try first.node(engine)
    await expect(.invalidConfiguration) { _ = try first.node(engine) { $0.remote?.mode = .readOnly } }
    await expect(.invalidConfiguration) { _ = try first.cache() }
    _ = try first.node(engine)
    try await cache.close()
  }

  /// Slices of a remote object are not uploaded.
  @Test func slicesDoNotGoThere() async throws {
    let cache = try first.node(engine)
    let origin = Origin(payload(5000))
    let slices = try origin.slices(in: cache, sliceSize: 1000)
    #expect(try await slices.read(0..<5000) == origin.bytes)
    try await slices.remove()
    #expect(engine.requests.isEmpty)
  }
}

extension BlobCache {
  /// Stores a blob in pieces, and removes its record as another program does, before the record is uploaded.
  func storeAndLose(_ payload: Data, for key: BlobKey) async throws {
    let writer = try await openWriter(for: key)
    try await writer.append(payload)
    try await writer.commit()
    try store.remove(key)
  }

  /// Waits until the latest change of a key has been sent to the tier.
  func remoteOutcome(of key: BlobKey) async -> RemoteOutcome? { await remoteSettled(key) }
}
