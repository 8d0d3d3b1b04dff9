@testable import BlobCache
import BlobRecord
import Foundation
import Locks
import TestSupport
import Testing

/// Tests the operations of a tool on a namespace that caches use at the same time.
@Suite(.timeLimit(.minutes(30))) struct RemoteRecordsTests {
  let machine: TestCache
  let engine = MemoryEngine()

  init() throws { machine = try TestCache() }

  private func records(_ naming: RecordNaming = .encoded) -> RemoteRecords {
    var records = RemoteRecords(engine, namespace: RemoteNamespace("test", naming: naming))
    records.now = { [clock = machine.clock] in clock.now }
    records.patience = .seconds(300)
    return records
  }

  /// A clock that records the length of the first sleep, and does not end sleeps.
  private final class NotingClock: Clock {
    let now = ContinuousClock.now
    let minimumResolution = Duration.zero
    private let noted = Lock<Duration?>(nil)

    var time: Duration {
      get async {
        while true {
          if let time = noted.withLock({ $0 }) { return time }
          await Task.yield()
        }
      }
    }

    func sleep(until deadline: ContinuousClock.Instant, tolerance: Duration?) async throws {
      noted.withLock { $0 = $0 ?? deadline - now }
      try await Task.sleep(for: .seconds(1 << 20))
    }
  }

  /// A slow connection is no failure: an upload has one additional second per mebibyte.
  @Test func anUploadHasTimeByItsSize() async throws {
    var records = records()
    let clock = NotingClock()
    records.clock = clock
    engine.hold { _ in _ = await clock.time }
    try await records.store(payload(3 << 20), for: "key", ttl: 60)
    let time = await clock.time
    #expect(time > .seconds(303) && time < .seconds(304), "\(time)")
  }

  private static let keys = ["key", "a", "ä", "a/b", "%", String(repeating: "long", count: 100)]

  @Test(arguments: [RecordNaming.encoded, .sha256]) func aCacheLoadsWhatIsPutThere(naming: RecordNaming) async throws {
    let records = records(naming)
    for key in Self.keys { try await records.store(payload(9), for: BlobKey(key), ttl: 60) }
    let cache = try machine.node(engine) { $0.remote?.namespace = records.namespace }
    for key in Self.keys {
      let blob = try #require(try await cache.load(BlobKey(key)))
      #expect(blob.payload == payload(9))
      #expect(blob.header.ttl == 60)
    }
    #expect(engine.objects.keys.allSatisfy { !$0.contains("//") })
  }

  @Test(arguments: [RecordNaming.encoded, .sha256]) func whatACacheStoresIsFound(naming: RecordNaming) async throws {
    let records = records(naming)
    let cache = try machine.node(engine) { $0.remote?.namespace = records.namespace }
    for key in Self.keys {
      let key = BlobKey(key)
      try await cache.store(payload(9), for: key, ttl: .seconds(60), extendedData: Data("beside".utf8))
      #expect(try await records.load(key)?.payload == payload(9))
      let bytes = try #require(try await records.bytes(of: key))
      #expect(bytes == engine.objects[try records.name(of: key).string])
      try await records.remove(key)
      #expect(try await records.load(key) == nil)
      #expect(try await records.bytes(of: key) == nil)
    }
  }

  @Test func whatIsOverIsNotThere() async throws {
    try await records().store(payload(1), for: "key", ttl: 5)
    machine.clock.advance(by: 6)
    #expect(try await records().load("key") == nil)
    #expect(try await records().bytes(of: "key") != nil)
  }

  @Test(arguments: [
    MemoryEngine.Fault.answer(Data()), .answer(payload(100)), .flip(at: 70), .truncate(to: 70), .fail(.refused),
  ])
  func whatIsWrongIsAnError(fault: MemoryEngine.Fault) async throws {
    try await records().store(payload(100), for: "key", ttl: 5)
    engine.fault(fault)
    await #expect(throws: RemoteError.self) { try await records().load("key") }
  }

  /// Another key's record is an error.
  @Test func anotherKeysRecordIsAnError() async throws {
    try await records().store(payload(100), for: "key", ttl: 5)
    engine.set(engine.objects["test/v1/ke/key"], "test/v1/ot/other")
    await #expect(throws: RemoteError.self) { try await records().load("other") }
  }

  /// A record that a cache sealed opens only with the same key, and a record that is put is sealed with it.
  @Test func sealsAreThoseOfACache() async throws {
    let key = RemoteSealKey(0..<16)
    var sealed = records()
    sealed.sealKey = key
    let cache = try machine.node(engine) { $0.remote?.sealKey = key }
    try await sealed.store(payload(9), for: "key", ttl: 60)
    #expect(try await cache.load("key")?.payload == payload(9))
    try await cache.store(payload(8), for: "other", ttl: .seconds(60))
    #expect(try await sealed.load("other")?.payload == payload(8))
    await #expect(throws: RemoteError.self) { try await records().load("other") }
    sealed.sealKey = RemoteSealKey(1..<17)
    await #expect(throws: RemoteError.self) { try await sealed.load("other") }
  }

  @Test func anEngineThatHangsHasItsTime() async throws {
    engine.fault(.hangForGood)
    var records = records()
    records.patience = .milliseconds(1)
    await #expect { try await records.load("key") } throws: { ($0 as? RemoteError)?.kind == .timedOut }
  }

  @Test func keysAreListedWithTheirHeaders() async throws {
    for key in Self.keys { try await records().store(payload(7), for: BlobKey(key), ttl: 60) }
    engine.set(Data("nothing".utf8), "test/v1/probe-1")
    engine.set(Data("nothing".utf8), "test/v1/xx/key")
    engine.set(Data("nothing".utf8), "other/v1/ke/key")
    let (entries, next) = try await records().page(prefix: "", nil)
    #expect(next == nil)
    // A long name does not contain its key, and an object at another path has no key.
    #expect(entries.compactMap { $0.key?.string }.sorted() == Self.keys.dropLast().sorted())
    #expect(entries.count == Self.keys.count + 2)
    for entry in entries {
      let header = try await records().header(of: entry.name)
      #expect((header?.payloadSize == 7) == !["test/v1/probe-1", "test/v1/xx/key"].contains(entry.name.string))
    }
  }

  @Test(arguments: [("a", ["a", "a/b"]), ("a/", ["a/b"]), ("k", ["key"]), ("key", ["key"]), ("kex", []), ("%", ["%"])])
  func aPrefixIsThatOfKeys(prefix: String, keys: [String]) async throws {
    for key in Self.keys { try await records().store(payload(7), for: BlobKey(key), ttl: 60) }
    let found = try await records().page(prefix: prefix, nil).entries.compactMap { $0.key?.string }
    #expect(Set(found) == Set(keys))
  }

  /// A digest does not contain the key, so a prefix matches nothing.
  @Test func aPrefixHasNothingWhereNamesAreDigests() async throws {
    try await records(.sha256).store(payload(7), for: "key", ttl: 60)
    #expect(try await records(.sha256).page(prefix: "", nil).entries.map(\.key) == [nil])
    #expect(try await records(.sha256).page(prefix: "k", nil).entries.isEmpty)
  }

  /// An object is held in memory, so that one without an end is refused, whether or not its size is stated.
  @Test(arguments: [true, false]) func anObjectThatIsTooLargeIsRefused(isStated: Bool) async throws {
    try await records().store(payload(100), for: "key", ttl: 60)
    var records = RemoteRecords(SizelessEngine(engine, states: isStated), namespace: RemoteNamespace("test"))
    records.now = { [clock = machine.clock] in clock.now }
    records.largestObject = 164
    #expect(try await records.load("key")?.payload == payload(100))
    records.largestObject = 163
    let error = await #expect(throws: RemoteError.self) { _ = try await records.load("key") }
    #expect(error?.kind == .unsupported && error?.message.hasSuffix("is longer than 163 bytes") == true)
  }

  /// An engine that does not state the sizes of objects.
  private struct SizelessEngine: RemoteEngine {
    let engine: MemoryEngine
    let states: Bool
    var name: String { engine.name }

    init(_ engine: MemoryEngine, states: Bool) { (self.engine, self.states) = (engine, states) }

    func get(_ name: RemoteName) async throws -> RemoteObject? {
      try await engine.get(name).map { RemoteObject(byteCount: states ? $0.byteCount : nil, pieces: $0.pieces) }
    }

    func put(_ record: RemoteRecord, as name: RemoteName) async throws { try await engine.put(record, as: name) }
    func remove(_ name: RemoteName) async throws { try await engine.remove(name) }
    func list(_ prefix: RemoteName, page: String?) async throws -> RemotePage { RemotePage(names: []) }
    func capabilities(under prefix: RemoteName) async throws -> RemoteCapabilities { RemoteCapabilities() }
    func close() async {}
  }

  @Test func capabilitiesAreTheEngines() async throws {
    #expect(try await records().capabilities().lists)
  }
}
