@testable import BlobCache
import BlobRecord
import BlobStore
import Foundation
import Locks
import TestSupport
import Testing

/// Objects of machines whose clocks are ahead, and the headers of objects that are not here.
@Suite(.timeLimit(.minutes(30))) struct RemoteClockTests {
  let first: TestCache
  let second: TestCache
  let engine = MemoryEngine()
  private static let tenYears: Int64 = 315_360_000

  init() throws { (first, second) = (try TestCache(), try TestCache()) }

  enum Way: CaseIterable { case load, reader }

  private func finds(_ cache: BlobCache, by way: Way) async throws -> Bool {
    switch way {
    case .load: try await cache.load("key") != nil
    case .reader: try await cache.openReader(for: "key") != nil
    }
  }

  /// T3: the update time of a fetched record is at most now, and that of the engine's object if it has one.
  @Test(arguments: Way.allCases, [true, false]) func aRecordOfTheFutureEnds(way: Way, isTimed: Bool) async throws {
    let start = second.clock.now
    first.clock.advance(by: Self.tenYears)
    try await first.node(engine).store(payload(100), for: "key", ttl: .seconds(30))
    engine.setModified(isTimed ? start : nil)
    second.clock.advance(by: 10)
    let cache = try second.node(engine)
    #expect(try await finds(cache, by: way))
    let header = try #require(try cache.store.header(for: "key"))
    #expect(header.lastUpdate == (isTimed ? start : second.clock.now) && header.ttl == 30)
    second.clock.advance(by: isTimed ? 21 : 31)
    #expect(try cache.store.header(for: "key") == nil)
    // Without a time of the engine, another fetch begins the lifetime again.
    #expect(try await finds(cache, by: way) == !isTimed)
    #expect(cache.remoteStatus?.misses == (isTimed ? 1 : 0))
  }

  /// An engine whose clock is ahead too does not prolong a record.
  @Test func theTimeOfTheEngineIsAtMostNow() async throws {
    first.clock.advance(by: Self.tenYears)
    try await first.node(engine).store(payload(100), for: "key", ttl: .seconds(30))
    engine.setModified(first.clock.now)
    let cache = try second.node(engine)
    #expect(try await cache.load("key")?.header.lastUpdate == second.clock.now)
  }

  /// A record of the past keeps its time, whatever the engine's clock says.
  @Test(arguments: Way.allCases) func aRecordOfThePastKeepsItsTime(way: Way) async throws {
    let start = second.clock.now
    try await first.node(engine).store(payload(100), for: "key", ttl: .seconds(30))
    engine.setModified(start.advanced(bySeconds: -3600))
    second.clock.advance(by: 10)
    let cache = try second.node(engine)
    #expect(try await finds(cache, by: way))
    #expect(try cache.store.header(for: "key")?.lastUpdate == start)
  }

  /// M7: an object of the future with the same payload is no newer blob, because it would be fetched each time.
  @Test func anObjectOfTheFutureIsNotNewerForGood() throws {
    let remote = try #require(try second.node(engine).engine.remote)
    let now = second.clock.now
    func header(_ seconds: Int64, checksum: UInt32) -> RecordHeader {
      var header = RecordHeader(ttl: 60, updateTime: UInt64(now.seconds + seconds), payloadSize: 3)
      header.payloadChecksum = checksum
      return header
    }
    let own = header(-5, checksum: 1)
    #expect(remote.isNewer(header(-4, checksum: 1), than: own))
    #expect(!remote.isNewer(header(-6, checksum: 2), than: own))
    #expect(remote.isNewer(header(100, checksum: 2), than: own))
    #expect(!remote.isNewer(header(100, checksum: 1), than: own))
  }

  // MARK: - Headers

  /// The header of an object is requested without the object, and nothing is stored here.
  @Test func aHeaderIsRequestedAlone() async throws {
    try await first.node(engine).store(payload(5000), for: "key", ttl: .seconds(60))
    second.clock.advance(by: 10)
    let cache = try second.node(engine)
    let header = try #require(try await cache.remoteHeader(for: "key"))
    #expect(header.payloadSize == 5000 && header.ttl == 60 && header.lastUpdate == first.clock.now)
    #expect(engine.requests.suffix(1) == [.head("test/v1/ke/key")])
    #expect(!engine.requests.contains(.get("test/v1/ke/key")))
    #expect(try cache.store.usage().records == 0)
    // An expired object is none.
    second.clock.advance(by: 51)
    #expect(try await cache.remoteHeader(for: "key") == nil)
    first.clock.advance(by: Self.tenYears)
    try await first.node(engine).store(payload(1), for: "ahead", ttl: .seconds(60))
    #expect(try await cache.remoteHeader(for: "ahead")?.lastUpdate == second.clock.now)
  }

  /// An absent object is remembered, and an engine that is left alone is not asked.
  @Test func anAbsentHeaderIsRemembered() async throws {
    let cache = try second.node(engine)
    for _ in 0..<2 { #expect(try await cache.remoteHeader(for: "none") == nil) }
    #expect(engine.requests == [.head("test/v1/no/none")])
    engine.fault(.fail(.refused))
    #expect(try await cache.remoteHeader(for: "other") == nil)
    #expect(try await cache.remoteHeader(for: "another") == nil)
    #expect(engine.requests.count == 2 && cache.remoteStatus?.passedOver == 1)
    // A cache without a tier has no headers beyond its own.
    #expect(try await TestCache().cache().remoteHeader(for: "none") == nil)
  }

  @Test func callersShareARequestForAHeader() async throws {
    try await first.node(engine).store(payload(5), for: "key")
    let cache = try second.node(engine)
    let gate = Latch()
    engine.hold { _ in await gate.wait() }
    let calls = (0..<3).map { _ in Task { try await cache.remoteHeader(for: "key")?.payloadSize } }
    let name = Production.Name(key: "key", kind: .fetchHeader)
    try await until { cache.engine.productions.waiterCount(of: name) == 3 }
    gate.open()
    for call in calls { #expect(try await call.value == 5) }
    #expect(engine.requests.filter { $0 == .head("test/v1/ke/key") }.count == 1)
  }
}
