@testable import BlobCache
import BlobRecord
import BlobStore
import Foundation
import Locks
import SystemPackage
import TestSupport
import Testing

/// Spec/Remote.md: payloads that are sent and received in chunks, and seals.
@Suite(.timeLimit(.minutes(30))) struct RemoteStreamTests {
  let first: TestCache
  let second: TestCache
  let engine = MemoryEngine()

  init() throws { (first, second) = (try TestCache(), try TestCache()) }

  private func object(of key: BlobKey) throws -> Data? {
    engine.objects[try RemoteNamespace("test").place(of: key).name.string]
  }

  /// T9: the engine has the blob when the call returns, whichever call stored it.
  @Test(arguments: [0, 1, 70_000, 3 << 20]) func everyWayOfStoringGoesThrough(byteCount: Int) async throws {
    let cache = try first.node(engine)
    let bytes = payload(byteCount)
    let file = first.outside.path.appending("source")
    try bytes.write(to: URL(fileURLWithPath: file.string))
    try await cache.store(contentsOf: file, for: "file")
    let writer = try await cache.openWriter(for: "writer")
    try await writer.append(bytes)
    try await writer.commit()
    _ = try await cache.load("produced") { bytes }
    _ = try await cache.store(bytes, for: "judged", ttl: nil, locks: .none, extendedData: nil) { $0 == nil }
    try await cache.store(bytes, for: "data")
    for key: BlobKey in ["file", "writer", "produced", "judged", "data"] {
      let object = try #require(try object(of: key), "\(key)")
      #expect(object.dropFirst(64) == bytes, "\(key)")
      let record = try #require(try await second.node(engine).load(key), "\(key)")
      #expect(record.payload == bytes)
    }
    #expect(try await cache.setExtendedData(Data([1, 2, 3]), for: "data") == .done)
    #expect(try #require(try object(of: "data")).count > 64 + byteCount)
    #expect(try await second.node(engine).load("data")?.payload == bytes)
  }

  /// The checksum that an engine may send first covers all bytes, which are read again for each try.
  @Test(arguments: [false, true], [5, 3 << 20])
  func aRecordComesInPiecesAgainAndAgain(isSealed: Bool, byteCount: Int) async throws {
    let cache = try first.node(engine) { $0.remote?.sealKey = isSealed ? RemoteSealKey(1...32) : nil }
    let seen = Lock<[RemoteRecord]>([])
    engine.onPut { record in seen.withLock { $0.append(record) } }
    try await cache.store(payload(byteCount), for: "key", extendedData: Data([7]))
    let writer = try await cache.openWriter(for: "key", extendedData: Data([7]))
    try await writer.append(payload(byteCount))
    try await writer.commit()
    let records = seen.withLock { $0 }
    #expect(records.map { $0.bytes == nil } == [false, true])
    for record in records {
      for _ in 0..<2 {
        var bytes = Data()
        for try await piece in record.pieces {
          #expect(piece.count <= max(1 << 20, byteCount))
          bytes += piece
        }
        #expect(bytes.count == record.byteCount)
        #expect(CRC32.checksum(of: bytes.bytes) == record.checksum)
        #expect(try await record.collected() == bytes)
      }
    }
  }

  /// A damaged payload is not uploaded.
  @Test func aDamagedFileIsNotSent() async throws {
    let cache = try first.node(engine) { $0.remote?.writing = .behind }
    let gate = Latch()
    engine.hold { _ in await gate.wait() }
    let writer = try await cache.openWriter(for: "key")
    try await writer.append(payload(2 << 20))
    let before = engine.requests.count
    try await writer.commit()
    try await until { engine.requests.count > before }
    let file = try FileHandle(forWritingTo: URL(fileURLWithPath: cache.store.filePath(for: "key").string))
    try file.seek(toOffset: 1000)
    try file.write(contentsOf: Data([~payload(2 << 20)[1000 - 64]]))
    gate.open()
    #expect(await cache.remoteOutcome(of: "key") != .done)
    #expect(try object(of: "key") == nil)
  }

  /// A cache that is released uploads waiting changes, like a closed one, and removes nothing on the engine.
  @Test func aCacheThatIsLetGoSendsWhatWaits() async throws {
    try await first.node(engine).store(payload(5), for: "key")
    let gate = Latch()
    engine.hold { request in if case .put = request { await gate.wait() } }
    do {
      let cache = try second.node(engine) {
        $0.remote?.writing = .behind
        $0.remote?.flushesOnCloseFor = .seconds(300)
      }
      for key: BlobKey in ["key", "other"] {
        let writer = try await cache.openWriter(for: key)
        try await writer.append(payload(70_000))
        try await writer.commit()
      }
    }
    gate.open()
    for key: BlobKey in ["key", "other"] { try await until { try object(of: key)?.dropFirst(64) == payload(70_000) } }
    #expect(!engine.requests.contains { if case .remove = $0 { true } else { false } })
  }

  /// A blob of another machine is streamed, and no producer runs.
  @Test func aStreamThatAnotherMachineHasIsNotProduced() async throws {
    try await first.node(engine).store(payload(70_000), for: "key")
    let cache = try second.node(engine)
    let follower = try await cache.stream("key") { _ in Issue.record("it is produced") }
    var bytes = Data()
    for try await piece in follower.pieces() { bytes += piece }
    #expect(bytes == payload(70_000))
    // A failed producer removes nothing on the engine.
    await #expect(throws: CancellationError.self) {
      let failing = try await cache.stream("none") { _ in throw CancellationError() }
      for try await _ in failing.pieces() {}
    }
    #expect(!engine.requests.contains { if case .remove = $0 { true } else { false } })
  }

  // MARK: - Receiving

  /// A reader opens a blob of another machine. The blob keeps its expiration and is not stored in memory.
  @Test(arguments: [0, 1, 70_000, 3 << 20]) func aReaderOpensWhatComes(byteCount: Int) async throws {
    try await first.node(engine).store(
      payload(byteCount), for: "key", ttl: .seconds(60), extendedData: Data([1, 2]))
    second.clock.advance(by: 20)
    let cache = try second.node(engine)
    let reader = try #require(try await cache.openReader(for: "key"))
    var bytes = Data()
    for try await piece in reader.pieces() { bytes += piece }
    #expect(bytes == payload(byteCount))
    #expect(reader.header.ttl == 60 && reader.header.lastUpdate == first.clock.now)
    #expect(try await cache.extendedData(for: "key") == Data([1, 2]))
    #expect(cache.blobInMemory(for: "key") == nil)
    #expect(cache.remoteStatus?.hits == 1 && cache.remoteStatus?.loadedBytes == Int64(byteCount))
    #expect(engine.requests.filter { if case .put = $0 { true } else { false } }.count == 1)
    second.clock.advance(by: 41)
    #expect(try await cache.openReader(for: "key") == nil)
  }

  /// T4: readers and loads of one key share one request.
  @Test(arguments: [true, false]) func readersAndLoadsWaitForOneRequest(readerIsFirst: Bool) async throws {
    try await first.node(engine).store(payload(9), for: "key")
    let gate = Latch()
    engine.hold { request in if case .get = request { await gate.wait() } }
    let cache = try second.node(engine)
    func read() async throws -> Data? { try await cache.openReader(for: "key")?.read(0..<9) }
    func load() async throws -> Data? { try await cache.load("key")?.payload }
    let begun = Task { readerIsFirst ? try await read() : try await load() }
    try await until { engine.requests.contains(.get("test/v1/ke/key")) }
    let others = (0..<8).map { number in Task { number % 2 == 0 ? try await read() : try await load() } }
    try await until { cache.fetchWaiterCount(of: "key") >= 9 }
    gate.open()
    for task in [begun] + others { #expect(try await task.value == payload(9)) }
    #expect(engine.requests.filter { $0 == .get("test/v1/ke/key") }.count == 1)
  }

  @Test(
    arguments: [
      MemoryEngine.Fault.truncate(to: 2000), .reset(after: 2000), .flip(at: 10), .flip(at: 2000), .flip(at: 1 << 20),
      .fail(.unreachable), .fail(.refused), .answer(Data([1, 2, 3])), .answer(Data(repeating: 0, count: 5000)),
    ])
  func aReaderOfWhatIsBrokenFindsNothing(fault: MemoryEngine.Fault) async throws {
    try await first.node(engine).store(payload(2 << 20), for: "key")
    engine.fault(fault)
    let cache = try second.node(engine)
    #expect(try await cache.openReader(for: "key") == nil)
    #expect(cache.remoteStatus?.failures == 1)
    #expect(try cache.store.records().map(\.file) == [])
    #expect(try await cache.usage().temporaryFiles == 0)
  }

  /// A blob that is stored locally during the fetch is newer.
  @Test func aStoreSupersedesWhatComes() async throws {
    try await first.node(engine).store(payload(2 << 20), for: "key")
    let gate = Latch()
    engine.hold { request in if case .get = request { await gate.wait() } }
    let cache = try second.node(engine) { $0.remote?.mode = .readOnly }
    let opening = Task { try await cache.openReader(for: "key")?.byteCount }
    try await until { engine.requests.contains(.get("test/v1/ke/key")) }
    try await cache.store(payload(5), for: "key")
    gate.open()
    #expect(try await opening.value == 5)
    #expect(try await cache.load("key")?.payload == payload(5))
  }

  /// A record that is damaged in the directory is fetched again.
  @Test(arguments: [true, false]) func aDamagedRecordIsFetchedAnew(opens: Bool) async throws {
    let cache = try first.node(engine) { $0.memory = nil }
    try await cache.store(payload(100_000), for: "key")
    let file = try cache.store.filePath(for: "key").string
    try Data("no record".utf8).write(to: URL(fileURLWithPath: file))
    if opens {
      #expect(try await cache.openReader(for: "key")?.read(0..<100_000) == payload(100_000))
    } else {
      #expect(try await cache.load("key")?.payload == payload(100_000))
    }
    #expect(try cache.store.load("key")?.payload == payload(100_000))
  }

  @Test(arguments: [true, false]) func aDamagedRecordThatNobodyHasIsReported(opens: Bool) async throws {
    let cache = try first.node(engine) { $0.memory = nil }
    try await cache.store(payload(100), for: "key")
    try Data("no record".utf8).write(to: URL(fileURLWithPath: try cache.store.filePath(for: "key").string))
    engine.fault(.fail(.unreachable))
    let error = await #expect(throws: BlobStoreError.self) {
      if opens { _ = try await cache.openReader(for: "key") } else { _ = try await cache.load("key") }
    }
    #expect(error?.code == .damaged)
  }

  // MARK: - Seals

  @Test(arguments: [true, false]) func aSealedRecordIsReadByItsKeyAlone(opens: Bool) async throws {
    let key = try #require(RemoteSealKey(1...32))
    func found(_ machine: TestCache, _ sealKey: RemoteSealKey?) async throws -> Data? {
      let cache = try machine.node(engine) { $0.remote?.sealKey = sealKey }
      defer { Task { try? await cache.close() } }
      return opens
        ? try await cache.openReader(for: "key")?.read(0..<100) : try await cache.load("key")?.payload
    }
    try await first.node(engine) { $0.remote?.sealKey = key }.store(payload(100), for: "key", extendedData: Data([5]))
    #expect(try await found(second, key) == payload(100))
    #expect(try await found(TestCache(), RemoteSealKey(2...33)) == nil)
    #expect(try await found(TestCache(), nil) == nil)
    // A record is refused if its seal is wrong or missing.
    let object = try #require(try object(of: "key"))
    var flipped = object
    flipped[object.count - 1] ^= 1
    try engine.set(flipped, RemoteNamespace("test").place(of: "key").name.string)
    #expect(try await found(TestCache(), key) == nil)
    engine.set(object.dropLast(40), try RemoteNamespace("test").place(of: "key").name.string)
    #expect(try await found(TestCache(), key) == nil)
  }

  /// RFC 4231, test case 2, preceded by a name and a zero byte; the digest was computed by Python's hmac.
  @Test func aSealIsAnHMAC() throws {
    var seal = RecordSeal(try #require(RemoteSealKey("0123456789abcdef".utf8)), of: RemoteName("a/b"))
    let bytes = Data("what do ya want for nothing?".utf8)
    seal.update(bytes.bytes)
    let digest = "ee73acc4b0239e533e9e7185f5802b5d7d248cf093597ee912d9821a07dead1b"
    #expect(seal.bytes == Data("BCSEAL01".utf8) + Data(digest.hexBytes))
    // A key of one block of SHA-256 is used as it is, and a longer one is replaced by its digest.
    for (count, digest) in [
      (64, "46c74e7d6e8c092bbc41671282078f3b4e0249fcb31ced8993a8131212f553dd"),
      (65, "bc4e4ac43c1b9e5b628f2a736bc6452b92eeb2c78b7dee67d966e4970a09644b"),
    ] {
      var seal = RecordSeal(try #require(RemoteSealKey(0..<UInt8(count))), of: RemoteName("a/b"))
      seal.update(bytes.bytes)
      #expect(seal.bytes.dropFirst(8) == Data(digest.hexBytes), "\(count)")
    }
    #expect(!"\(try #require(RemoteSealKey(1...32)))".contains("1, 2"))
    #expect(RemoteSealKey(1...15) == nil)
  }
}

extension String {
  fileprivate var hexBytes: [UInt8] {
    stride(from: 0, to: count, by: 2).map {
      UInt8(dropFirst($0).prefix(2), radix: 16) ?? 0
    }
  }
}
