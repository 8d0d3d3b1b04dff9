import BlobRecord
import Foundation
import Locks
import Posix
import TestSupport
import Testing

@testable import BlobStore

/// The compaction of chunks with few or no live records.
@Suite struct PackCompactionTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  private func store(
    _ cache: Cache? = nil, files: Files = Files(), _ change: (inout BlobStore.Configuration) -> Void = { _ in }
  ) throws -> BlobStore {
    try (cache ?? self.cache).store(files: files) {
      $0.packing = .upTo(8192)
      change(&$0)
    }
  }

  private static func key(_ number: Int) -> BlobKey { BlobKey("key \(number)") }

  /// Payloads of a thousand bytes, so that a chunk has room for about 980 such records.
  private static func payload(_ seed: Int) -> Data {
    Data("\(seed)".utf8) + Data(repeating: UInt8(truncatingIfNeeded: seed), count: 1000)
  }

  private func records(_ store: BlobStore) throws -> PackRecords {
    let open = try #require(try store.core.root.opened())
    return try #require(try Records(store.core).packs(of: open))
  }

  private func compact(_ store: BlobStore) throws {
    var compaction = PackCompaction(of: try records(store), isStopped: { false }, didFail: { Issue.record($0) })
    try compaction.run()
  }

  /// Returns the chunks of the first pack that are not free, and the bytes of their live records.
  private func use(_ store: BlobStore) throws -> (kinds: [ChunkState.Kind], liveByteCount: Int) {
    let records = try records(store)
    let pack = try #require(try records.packs.files.pack(0))
    let kinds = (0..<PackLayout.chunkCount).compactMap { pack.entry(ofChunk: $0).state.kind }.filter { $0 != .free }
    var live = 0
    records.packs.index.forEachEntry { live += $0.byteCount }
    return (kinds, live)
  }

  /// Stores by a process that has ended, so that its chunks are not filled further.
  private func storing(_ body: (BlobStore) throws -> Void) throws { try body(try store()) }

  @Test func recordsAreMovedAsTheyAre() throws {
    try storing { store in
      for number in 0..<3000 {
        let isLocked = number % 3 == 1
        try store.store(
          Self.payload(number), for: Self.key(number), ttl: number % 3 == 2 ? .seconds(1000) : nil,
          locks: isLocked ? .one : .none, extendedData: number % 10 == 0 ? Data([7]) : nil)
      }
      cache.clock.advance(by: 100)
      for number in stride(from: 0, to: 3000, by: 30) { try store.touch(Self.key(number)) }
      for number in 0..<3000 where number % 5 != 0 { try store.remove(Self.key(number)) }
    }
    let store = try store()
    func headers() throws -> [RecordHeader?] { try (0..<3000).map { try store.header(for: Self.key($0)) } }
    let before = try headers()
    let (kinds, live) = try use(store)
    #expect(kinds.count >= 4)
    try compact(store)
    #expect(try headers() == before)
    for number in stride(from: 0, to: 3000, by: 5) {
      #expect(try store.load(Self.key(number))?.payload == Self.payload(number), "\(number)")
      let hasData = number % 10 == 0
      #expect(try store.extendedData(for: Self.key(number)) == (hasData ? Data([7]) : nil), "\(number)")
    }
    let after = try use(store)
    #expect(after.kinds.count < kinds.count && after.liveByteCount == live)
    #expect(after.kinds.count { $0 == .collecting } == 1)
    // The packs agree with the index.
    try FileManager.default.removeItem(atPath: cache.path(".packs/index"))
    try FileManager.default.removeItem(atPath: cache.path(".blobcache"))
    let other = try self.store()
    try other.store(Self.payload(0), for: "another")
    for number in 0..<3000 {
      let expected = number % 5 == 0 ? Self.payload(number) : nil
      #expect(try other.load(Self.key(number))?.payload == expected, "\(number)")
      #expect(try other.header(for: Self.key(number))?.refCount == before[number]?.refCount)
    }
  }

  @Test func theCopyOfADurableRecordIsOnTheMediumBeforeTheRecordIsMarked() throws {
    try storing { store in
      for number in 0..<2100 { try store.store(Self.payload(number), for: Self.key(number), locks: .one) }
      for number in 0..<2100 where number % 100 != 0 { try store.remove(Self.key(number)) }
    }
    let trace = CallTrace()
    let store = try store(files: trace.files)
    try compact(store)
    let calls = trace.take().map(\.call)
    let marked = try #require(calls.lastIndex(of: .markDead))
    let written = try #require(calls.lastIndex(of: .write))
    #expect(calls[written..<marked].contains(.sync))
  }

  @Test func freeChunksAreUsedAgain() throws {
    try storing { store in
      for number in 0..<4000 { try store.store(Self.payload(number), for: Self.key(number)) }
      for number in 0..<4000 { try store.remove(Self.key(number)) }
    }
    let store = try store()
    let size = try #require(try cache.state(".packs/p-0")).size
    try compact(store)
    #expect(try use(store).kinds == [.collecting])
    for number in 0..<3000 { try store.store(Self.payload(number), for: Self.key(number)) }
    #expect(try cache.state(".packs/p-0")?.size == size)
    for number in 0..<3000 { #expect(try store.load(Self.key(number))?.payload == Self.payload(number)) }
  }

  /// A store has reserved room in a chunk, and has not yet published its record.
  @Test func aChunkWithARecordInFlightIsLeftAlone() throws {
    let (store, other) = try (store(), store())
    try store.store(Self.payload(1), for: "first")
    var records = try records(store)
    let slow = try store.core.path(for: "slow")
    let payload = Self.payload(2)
    var header = RecordHeader(updateTime: UInt64(cache.now), payloadSize: UInt64(payload.count))
    header.payloadChecksum = CRC32.checksum(of: payload.bytes)
    header.keyDigest = slow.digest
    do {
      guard let room = try records.room(for: header, slow, isDurable: false) else {
        Issue.record("no room")
        return
      }
      #expect(room.address.chunk == 0)
      // The chunk is filled, and the next one is started.
      for number in 0..<1200 { try store.store(Self.payload(number), for: Self.key(number)) }
      for number in 0..<1200 { try store.remove(Self.key(number)) }
      try store.remove("first")
      try compact(other)
      #expect(try #require(try records.packs.files.pack(0)).entry(ofChunk: 0).state.kind == .sealed)
      var change = records
      var hold = try Records(store.core).hold(slow.digest)
      try payload.withUnsafeBytes { bytes in
        let (body, nothing) = (PackedBody(bytes, payload: bytes.count), PackedPredecessor(nil))
        try change.commit(header, body, as: slow, in: room, replacing: nothing, .none, .store, &hold)
      }
    }
    #expect(try other.load("slow")?.payload == payload)
    try other.remove("slow")
    try compact(other)
    // Collections keep the first chunk as a spare; the others are free, except for the open one.
    try compact(other)
    #expect(try use(store).kinds == [.collecting, .open])
  }

  /// A process that locked a record was killed before it marked the old copy as dead. The new copy is elsewhere.
  @Test func aRecordThatLiesElsewhereStaysThere() throws {
    try storing { store in
      for number in 0..<500 { try store.store(Self.payload(number), for: Self.key(number)) }
      for number in 1..<500 { try store.remove(Self.key(number)) }
    }
    let (cache, copy, trace) = (cache, try Cache(), CallTrace())
    trace.onCall { call, _ in
      guard call == .markDead else { return nil }
      #expect(throws: Never.self) {
        try FileManager.default.copyItem(atPath: cache.root.string, toPath: copy.root.string)
      }
      return nil
    }
    try store(files: trace.files).lock(Self.key(0))
    let store = try store(copy)
    let records = try records(store)
    let path = try store.core.path(for: Self.key(0))
    func place() throws -> UInt64? { try records.find(path, by: RecordJudge())?.packAddress }
    let before = try #require(try place())
    let chunk = try #require(try records.packs.files.pack(0)).entry(ofChunk: PackAddress(rawValue: before).chunk)
    #expect(chunk.chunkClass == .durable)
    try compact(store)
    #expect(try place() == before)
    #expect(try use(store).kinds.contains(.sealed) && store.header(for: Self.key(0))?.refCount == 1)
  }

  /// Another process has removed an entry, but not yet marked its record. The mark must not hit another record.
  @Test(arguments: [false, true]) func aChunkWithAChangeThatHasNotEndedIsLeftAlone(isDamaged: Bool) throws {
    try storing { store in
      for number in 0..<500 { try store.store(Self.payload(number), for: Self.key(number)) }
      for number in 1..<500 { try store.remove(Self.key(number)) }
    }
    let store = try store()
    let records = try records(store)
    let path = try store.core.path(for: Self.key(0))
    let place = try #require(try records.find(path, by: RecordJudge())?.packAddress)
    if isDamaged {
      let bytes = [UInt8](repeating: 1, count: 40)
      try #require(try records.packs.files.pack(0)).write(bytes.span.bytes, at: PackAddress(rawValue: place))
    }
    let held = try HeldLocks(in: cache)
    let stripe = Int64(ControlLayout.stripe(of: path.digest))
    #expect(try held.take(stripe..<stripe + 1))
    #expect(records.packs.index.remove(path.digest, at: PackAddress(rawValue: place)) != nil)
    try compact(store)
    let chunk = try #require(try records.packs.files.pack(0)).entry(ofChunk: PackAddress(rawValue: place).chunk)
    #expect(chunk.state.kind == .sealed)
    let bits = try #require(try records.packs.files.pack(0)).deadBits(ofChunk: PackAddress(rawValue: place).chunk)
    bits.set(PackAddress(rawValue: place), isDead: true)
    try held.giveBack(stripe..<stripe + 1)
    try compact(store)
    #expect(chunk.state.kind == .free)
  }

  /// Removing expired or evicted records frees chunks.
  @Test(arguments: [false, true]) func whatACollectionRemovesMakesRoom(isLimited: Bool) throws {
    try storing { store in
      for number in 0..<3000 { try store.store(Self.payload(number), for: Self.key(number), ttl: .seconds(100)) }
      for number in 3000..<3100 { try store.store(Self.payload(number), for: Self.key(number), ttl: .seconds(1000)) }
    }
    let store = try store { if isLimited { $0.limits.size = 400_000 } }
    if !isLimited { cache.clock.advance(by: 101) }
    let before = try use(store).kinds.count
    let report = try store.collect()
    #expect(report.failed == 0 && (isLimited ? report.evicted : report.expired) >= 2700)
    #expect(before >= 4)
    #expect(try use(store).kinds.count <= 3)
    var left = 0
    for number in 0..<3100 {
      guard let payload = try store.load(Self.key(number))?.payload else { continue }
      left += 1
      #expect(payload == Self.payload(number))
    }
    #expect(isLimited ? left < 400 && left > 100 : left == 100)
  }

  @Test func whatIsReplacedOftenTakesLittleMore() throws {
    let store = try store()
    var generation = [Int](repeating: 0, count: 20_000)
    for number in 0..<20_000 { try store.store(Self.payload(number), for: Self.key(number), ttl: .seconds(10_000)) }
    var random = SeededGenerator(seed: 5)
    for round in 1...6 {
      for _ in 0..<5000 {
        let number = Int.random(in: 0..<20_000, using: &random)
        generation[number] = round
        try store.store(Self.payload(number + round), for: Self.key(number), ttl: .seconds(10_000))
      }
      try compact(store)
      let (kinds, live) = try use(store)
      #expect(kinds.count * PackLayout.chunkByteCount <= live * 145 / 100, "round \(round)")
    }
    for number in 0..<20_000 {
      #expect(try store.load(Self.key(number))?.payload == Self.payload(number + generation[number]), "\(number)")
    }
  }

  @Test func aFullVolumeCanBeCleaned() throws {
    try storing { store in
      for number in 0..<4000 { try store.store(Self.payload(number), for: Self.key(number)) }
    }
    let trace = CallTrace()
    let store = try store(files: trace.files)
    try compact(store)
    #expect(try use(store).kinds.contains(.collecting))
    for number in 0..<4000 where number % 10 != 0 { try store.remove(Self.key(number)) }
    let before = try use(store).kinds.count
    // The pages of the control file are allocated, which this process does not know.
    trace.onCall { call, path in
      [.allocate, .allocateRange, .reserve].contains(call) && path.string.contains("/.packs/") ? .fail(.noSpace) : nil
    }
    try compact(store)
    #expect(try use(store).kinds.count <= before - 2)
    #expect(try use(store).kinds.contains(.collecting))
    for number in 0..<4000 {
      let expected = number % 10 == 0 ? Self.payload(number) : nil
      #expect(try store.load(Self.key(number))?.payload == expected, "\(number)")
    }
  }

  @Test func blocksOfManyFreeChunksAreGivenBack() throws {
    try storing { store in
      for number in 0..<8000 { try store.store(Self.payload(number), for: Self.key(number)) }
      for number in 0..<8000 { try store.remove(Self.key(number)) }
    }
    let trace = CallTrace()
    let store = try store(files: trace.files)
    try compact(store)
    // Some free chunks keep their blocks.
    #expect(trace.count(.punchHole) == 5)
    for _ in 0..<3 { try compact(store) }
    #expect(trace.count(.punchHole) == 5)
    for number in 0..<8000 { try store.store(Self.payload(number), for: Self.key(number)) }
    for number in 0..<8000 { #expect(try store.load(Self.key(number))?.payload == Self.payload(number)) }
  }

  @Test func aCollectionCompacts() throws {
    try storing { store in
      for number in 0..<3000 { try store.store(Self.payload(number), for: Self.key(number)) }
      for number in 0..<3000 where number % 10 != 0 { try store.remove(Self.key(number)) }
    }
    let store = try store()
    var options = BlobStore.CollectionOptions()
    options.dryRun = true
    let before = try use(store)
    _ = try store.collect(options)
    #expect(try use(store).kinds == before.kinds)
    options.dryRun = false
    let report = try store.collect(options)
    #expect(report.failed == 0 && report.evicted == 0)
    #expect(try use(store).kinds.count < before.kinds.count && use(store).liveByteCount == before.liveByteCount)
  }

  // MARK: Steps

  /// Fills a cache with three chunks, in which one record of a hundred is alive.
  private func fill(_ cache: Cache) throws {
    let store = try store(cache)
    for number in 0..<2100 { try store.store(Self.payload(number), for: Self.key(number), ttl: .seconds(1000)) }
    for number in 0..<2100 where number % 100 != 0 { try store.remove(Self.key(number)) }
  }

  private func expect(_ content: [Int: Int], in store: BlobStore, _ when: String) throws {
    for number in stride(from: 0, to: 2100, by: 50) {
      let expected = content[number].map { Self.payload($0) }
      #expect(try store.load(Self.key(number))?.payload == expected, "\(number), \(when)")
    }
  }

  /// Another process changes records between any two steps, and a copy of the directory shows the state after a kill.
  @Test func changesAndKillsMayComeBetweenAllSteps() throws {
    let count = CallCount()
    try fill(cache)
    let template = cache
    for chosen in stride(from: 1, to: 1000, by: 7) {
      let (cache, copy, trace) = (try Cache(), try Cache(), CallTrace())
      try FileManager.default.copyItem(atPath: template.root.string, toPath: cache.root.string)
      let other = try store(cache) { $0.access.lockTimeout = .zero }
      let store = try store(cache, files: trace.files)
      #expect(try store.load(Self.key(0)) != nil)
      let steps = CallCount()
      let old = Dictionary(uniqueKeysWithValues: stride(from: 0, to: 2100, by: 100).map { ($0, $0) })
      let changed = Lock((content: old, isLocked: false))
      trace.onCall { _, _ in
        steps.add(1)
        guard steps.value == chosen else { return nil }
        count.add(1)
        #expect(throws: Never.self) {
          try FileManager.default.copyItem(atPath: cache.root.string, toPath: copy.root.string)
          // Changes whose stripe is held are skipped.
          try Self.unlessBusy {
            try other.store(Self.payload(7), for: Self.key(100), ttl: .seconds(1000))
            changed.withLock { $0.content[100] = 7 }
          }
          try Self.unlessBusy {
            try other.remove(Self.key(200))
            changed.withLock { $0.content[200] = nil }
          }
          try Self.unlessBusy {
            try other.lock(Self.key(300))
            changed.withLock { $0.isLocked = true }
          }
          try Self.unlessBusy {
            try other.store(Self.payload(8), for: Self.key(50), ttl: .seconds(1000))
            changed.withLock { $0.content[50] = 8 }
          }
        }
        return nil
      }
      try compact(store)
      trace.onCall(nil)
      guard steps.value >= chosen else { break }
      let (content, isLocked) = changed.withLock { $0 }
      try expect(content, in: store, "step \(chosen)")
      try compact(store)
      try expect(content, in: other, "step \(chosen), after another pass")
      #expect(try other.header(for: Self.key(300))?.refCount == (isLocked ? 1 : 0), "step \(chosen)")
      let survivor = try self.store(copy)
      try expect(old, in: survivor, "killed before step \(chosen)")
      try compact(survivor)
      try expect(old, in: survivor, "killed before step \(chosen), after another pass")
      #expect(try use(survivor).kinds.count <= 3)
    }
    #expect(count.value > 15)
  }

  private static func unlessBusy(_ body: () throws -> Void) throws {
    do {
      try body()
    } catch let error as BlobStoreError where error.code == .busy {
    }
  }
}
