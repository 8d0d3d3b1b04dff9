import BlobRecord
import Foundation
import TestSupport
import Testing

@testable import BlobStore

/// A size limit with packs: the records that are evicted, and the space of the packs on the medium.
@Suite struct PackedLimitTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// Chunks of 64 KiB, with room for about 60 of the records.
  private static let chunkByteCount = 64 << 10
  private static let payloadByteCount = 1000

  private func store(limit: Int64, collectsOnStore: Bool, packing: BlobStore.Packing = .upTo(8192)) throws -> BlobStore
  {
    try cache.store {
      $0.packing = packing
      $0.packChunkByteCount = Self.chunkByteCount
      $0.limits.size = limit
      $0.limits.freeSpaceFloor = 0
      $0.limits.collectsOnStore = collectsOnStore
      $0.recycling = .off
    }
  }

  private static func key(_ number: Int) -> BlobKey { BlobKey("key \(number)") }

  private static func payload(_ seed: Int) -> Data {
    Data(repeating: UInt8(truncatingIfNeeded: seed), count: payloadByteCount)
  }

  /// Counts of the chunks of all packs by their use.
  private struct Chunks {
    var inUse = 0
    var withBlocks = 0
    var liveByteCount = 0

    func inUse(perLive chunkByteCount: Int) -> Double { Double(inUse * chunkByteCount) / Double(liveByteCount) }
  }

  private func chunks(_ store: BlobStore) throws -> Chunks {
    let open = try #require(try store.core.root.opened())
    let records = try #require(try Records(store.core).packs(of: open))
    var chunks = Chunks()
    for pack in try records.packs.files.all() {
      for number in 0..<PackLayout.chunkCount {
        let entry = pack.entry(ofChunk: number)
        if entry.state.kind != .free { chunks.inUse += 1 }
        if entry.state.kind != .free || entry.hasBlocks { chunks.withBlocks += 1 }
      }
    }
    records.packs.index.forEachEntry { chunks.liveByteCount += $0.byteCount }
    return chunks
  }

  private func sequence(_ store: BlobStore) throws -> UInt64 {
    let open = try #require(try store.core.root.opened())
    return try #require(try Records(store.core).packs(of: open)).control.packSequence
  }

  /// Returns the number of a random key, where few keys are popular.
  private static func popular(of count: Int, _ random: inout SeededGenerator) -> Int {
    let share = Double.random(in: 0..<1, using: &random)
    return Int(share * share * share * Double(count))
  }

  @Test(arguments: [BlobStore.Eviction.frequency, .oldest]) func whatIsEvictedLeavesFewHoles(
    eviction: BlobStore.Eviction
  ) throws {
    let limit = Int64(4000 * (Self.payloadByteCount + RecordHeader.byteCount))
    let store = try cache.store {
      $0.packing = .upTo(8192)
      $0.packChunkByteCount = Self.chunkByteCount
      $0.limits.size = limit
      $0.limits.eviction = eviction
      $0.limits.freeSpaceFloor = 0
      $0.limits.collectsOnStore = false
    }
    try store.store(Self.payload(0), for: Self.key(0))
    // From here on, the counters are known.
    _ = try store.collect()
    var random = SeededGenerator(seed: 3)
    var (stores, passes, first) = (0, 0, UInt64(0))
    for request in 0..<40_000 {
      if request.isMultiple(of: 50) { cache.clock.advance(by: 1) }
      let number = Self.popular(of: 16_000, &random)
      let isHit = try store.load(Self.key(number)) != nil
      guard !isHit || Int.random(in: 0..<10, using: &random) == 0 else { continue }
      try store.store(Self.payload(number), for: Self.key(number))
      stores += 1
      guard let held = try store.usageEstimate()?.bytes, held > limit else { continue }
      let report = try store.collect()
      #expect(report.failed == 0 && report.evicted > 0 && report.bytesAfter <= limit * 9 / 10)
      // The pass evicts at most a chunk beyond the target, apart from the cost of emptying chunks.
      #expect(report.bytesAfter >= limit * 7 / 10, "pass \(passes)")
      passes += 1
      let chunks = try chunks(store)
      // The constant covers the spare chunk and the chunks that are being filled.
      let live = (chunks.liveByteCount + Self.chunkByteCount - 1) / Self.chunkByteCount
      #expect(chunks.inUse <= live * 115 / 100 + 5, "pass \(passes): \(chunks)")
      #expect(chunks.withBlocks <= live * 125 / 100 + 5, "pass \(passes): \(chunks)")
      if passes == 2 { (stores, first) = (0, try sequence(store)) }
    }
    #expect(passes > 5)
    let amplification = Double(try sequence(store) - first) / Double(stores)
    #expect(amplification <= 1.6, "\(amplification)")
    try store.checkInvariants()
  }

  /// A chunk whose records have the same age is evicted as a whole, but the popular records stay.
  @Test func whatIsUsedStays() throws {
    let store = try store(limit: 2_000_000, collectsOnStore: false)
    for number in 0..<2500 {
      try store.store(Self.payload(number), for: Self.key(number))
      if number.isMultiple(of: 10) { cache.clock.advance(by: 1) }
    }
    for _ in 0..<4 {
      for number in stride(from: 0, to: 2500, by: 10) { _ = try store.load(Self.key(number)) }
      cache.clock.advance(by: 60)
    }
    let report = try store.collect()
    #expect(report.evicted > 500 && report.failed == 0)
    for number in stride(from: 0, to: 2500, by: 10) {
      #expect(try store.load(Self.key(number))?.payload == Self.payload(number), "\(number)")
    }
    try store.checkInvariants()
  }

  @Test func lockedRecordsAreMovedAndStay() throws {
    let store = try store(limit: 2_000_000, collectsOnStore: false)
    for number in 0..<2500 {
      try store.store(Self.payload(number), for: Self.key(number), locks: number.isMultiple(of: 5) ? .one : .none)
    }
    let report = try store.collect()
    #expect(report.failed == 0 && report.bytesAfter <= 1_800_000)
    for number in stride(from: 0, to: 2500, by: 5) {
      #expect(try store.header(for: Self.key(number))?.refCount == 1, "\(number)")
    }
    try store.checkInvariants()
  }

  /// The stores do not exceed the limit, but each one leaves a dead record.
  @Test func whatIsReplacedCountsAgainstTheLimit() throws {
    let limit: Int64 = 2_000_000
    let store = try store(limit: limit, collectsOnStore: true)
    var random = SeededGenerator(seed: 9)
    var newest = [Int](repeating: 0, count: 1000)
    for number in 0..<1000 { try store.store(Self.payload(number), for: Self.key(number)) }
    for round in 1...20_000 {
      let number = Int.random(in: 0..<1000, using: &random)
      newest[number] = round
      try store.store(Self.payload(number + round), for: Self.key(number))
      if round.isMultiple(of: 16) { store.waitForCollection() }
    }
    store.waitForCollection()
    let chunks = try chunks(store)
    // 1.4 times the limit, eight chunks, and the bytes stored between two checks.
    let most = Int(limit) * 14 / 10 + Int(limit) / 16 + 9 * Self.chunkByteCount
    #expect(chunks.withBlocks * Self.chunkByteCount <= most, "\(chunks)")
    for number in 0..<1000 {
      #expect(try store.load(Self.key(number))?.payload == Self.payload(number + newest[number]), "\(number)")
    }
  }

  /// Names take room in chunks, but do not count as bytes of records.
  @Test func whatNoCompactionFreesIsEvicted() throws {
    let limit: Int64 = 1_000_000
    let store = try store(limit: limit, collectsOnStore: true)
    for number in 0..<12_000 {
      try store.store(Data(repeating: 1, count: 8), for: BlobKey(String(repeating: "n", count: 200) + "\(number)"))
      if number.isMultiple(of: 16) { store.waitForCollection() }
    }
    store.waitForCollection()
    let chunks = try chunks(store)
    let most = Int(limit) * 14 / 10 + Int(limit) / 16 + 13 * Self.chunkByteCount
    #expect(chunks.inUse * Self.chunkByteCount <= most, "\(chunks)")
    let left = try #require(try store.usageEstimate())
    #expect(left.records > 3000 && left.bytes < limit * 6 / 10)
  }

  /// The chunk table is shared, so it may contain any values. The limit may have any value, too.
  @Test(arguments: [1 << 20, Int64.max]) func anyTableAndAnyLimitCanBeAsked(limit: Int64) throws {
    let store = try store(limit: limit, collectsOnStore: false)
    for number in 0..<100 { try store.store(Self.payload(number), for: Self.key(number)) }
    try store.collect()
    let open = try #require(try store.core.root.opened())
    let pack = try #require(try Records(store.core).packs(of: open)?.packs.files.pack(0))
    for chunk in 0..<4 { pack.entry(ofChunk: chunk).countLive(records: 1, bytes: .max >> 1) }
    let medium = try #require(try PackedMedium(of: store.core))
    #expect(!medium.isTooMuch && medium.recordByteCount == nil)
  }

  @Test func standingsTellWhatAShareOfTheRecordsTakes() {
    var standings = ChunkStandings()
    func chunk(_ number: Int) -> PackAddress { PackAddress(pack: 0, chunk: number, offset: 0) }
    let steps = [1000.0, 100, 10, 1].map { EvictionStep(distance: $0) }
    #expect(steps == steps.sorted() && Set(steps).count == 4)
    for number in 0..<4 {
      for (index, step) in steps.enumerated() where index >= number {
        let address = PackAddress(pack: 0, chunk: number, offset: 64 * index)
        standings.add(IndexEntry(tag: 1, byteCount: 64, address: address), at: step, logical: 100)
      }
    }
    #expect(standings.byteCount == 640 && standings.logicalByteCount == 1000 && standings.chunkCount == 4)
    // One record has the first step, two records the second, and three the third.
    let last = standings.lastSteps(of: [0, 1, 64, 65, 640, 1000])
    #expect(last == [nil, steps[0], steps[0], steps[1], steps[3], steps[3]])
    #expect(standings.byteCounts(of: chunk(0), upTo: last) == [0, 64, 64, 128, 256, 256])
    #expect(standings.byteCounts(of: chunk(3), upTo: last) == [0, 0, 0, 0, 64, 64])
    #expect(standings.byteCounts(of: chunk(9), upTo: [steps[3]]) == [0])
  }
}
