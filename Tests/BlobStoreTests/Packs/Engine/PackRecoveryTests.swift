import BlobRecord
import Foundation
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// An index is rebuilt while other processes still change packs.
@Suite struct PackRecoveryTests: PackedSuite {
  let cache: Cache

  init() throws { cache = try Cache() }

  private func store(files: Files = Files()) throws -> BlobStore { try storeOfSmallChunks(files: files) }

  /// A collection that began earlier frees a chunk after it was walked, and another process takes it.
  @Test func nothingIsMarkedAsDeadInAChunkThatWasUsedAnew() throws {
    let old = payload(1000)
    do {
      let writer = try store()
      for number in 0..<60 { try writer.store(old, for: BlobKey("key \(number)")) }
      // The first chunk contains only records that were replaced.
      for number in 0..<20 { try writer.store(payload(1000, 2), for: BlobKey("key \(number)")) }
    }
    let root = try #require(try store().core.root.opened())
    let packs = try #require(try PackDirectory.open(in: root, makesIt: false))
    let pack = try #require(try PackFile.open(0, in: packs))
    let audit = try PackAudit(of: cache.root)
    let replaced = audit.records.filter { $0.address.chunk == 0 }
    #expect(replaced.count > 10 && replaced.allSatisfy(\.isDead))
    // A power cut has reverted the marks, so they are set again.
    for record in replaced { pack.deadBits(ofChunk: 0).set(record.address, isDead: false) }
    try NextBoot.begin(in: cache.root.string)
    let trace = CallTrace()
    let walk = Lock((reads: 0, isTaken: false))
    trace.onCall { call, path in
      guard call == .read, path.lastComponent?.string == "p-0" else { return nil }
      let first = pack.entry(ofChunk: 0)
      walk.withLock { walk in
        // The walk seals the first chunk and reads it. The next read is for the second chunk.
        guard first.state.kind == .sealed, !walk.isTaken else { return }
        walk.reads += 1
        guard walk.reads == 2, first.beginCollection(), first.free() else { return }
        walk.isTaken = first.take(for: .survivors, owner: 1 << 40, sequence: 1000)
      }
      return nil
    }
    #expect(try store(files: trace.files).load("key 1")?.payload == payload(1000, 2))
    #expect(walk.withLock { $0.isTaken })
    for record in replaced { #expect(!pack.deadBits(ofChunk: 0).isDead(record.address)) }
    for number in 0..<60 {
      #expect(
        try store().load(BlobKey("key \(number)"))?.payload == (number < 20 ? payload(1000, 2) : old), "\(number)")
    }
  }

  /// A power cut preserves records and salts, but loses the table of the chunks in use.
  @Test func aLostTableHidesNoRecord() throws {
    do {
      let writer = try store()
      for number in 0..<60 { try writer.store(payload(1000, UInt64(number)), for: BlobKey("key \(number)")) }
      try writer.remove("key 3")
    }
    let pack = try FileDescriptor.open(FilePath(cache.path(".packs/p-0")), .writeOnly, options: .closeOnExec)
    let table = PackLayout.tableEntryOffset(ofChunk: 0)..<PackLayout.tableEntryOffset(ofChunk: PackLayout.chunkCount)
    try pack.closeAfter { _ = try pack.writeAll(toAbsoluteOffset: Int64(table.lowerBound), Data(count: table.count)) }
    try NextBoot.begin(in: cache.root.string)
    func expectAll(without removed: Set<Int>) throws {
      for number in 0..<60 {
        let expected = removed.contains(number) ? nil : payload(1000, UInt64(number))
        #expect(try store().load(BlobKey("key \(number)"))?.payload == expected, "\(number)")
      }
    }
    try expectAll(without: [3])
    // The chunks of the records are not reused.
    for number in 0..<300 { try store().store(payload(1000), for: BlobKey("new \(number)")) }
    try store().remove("key 5")
    try store().collect()
    try expectAll(without: [3, 5])
    try NextBoot.begin(in: cache.root.string)
    try expectAll(without: [3, 5])
  }

  /// After a bad block of the medium, the other records are found. Records in the block stay lost, and so does a
  /// record whose name extends into it from the page before.
  @Test(arguments: [(nameLength: 6, page: 2), (200, 1)])
  func aBadBlockTakesWhatLiesThere(_ place: (nameLength: Int, page: Int)) throws {
    let count = 60
    func key(_ number: Int) -> BlobKey {
      BlobKey("\(number)" + String(repeating: "k", count: place.nameLength - "\(number)".count))
    }
    func payload(_ number: Int) -> Data { BlobStoreTests.payload(1100, UInt64(number)) }
    do {
      let writer = try store()
      for number in 0..<count { try writer.store(payload(number), for: key(number)) }
    }
    let records = try PackAudit(of: cache.root).records
    let page = place.page * 4096..<(place.page + 1) * 4096
    let lost = records.filter {
      $0.address.chunk == 0 && page.overlaps($0.address.offset..<$0.address.offset + $0.header.byteCount)
    }
    #expect(3...6 ~= lost.count)
    let first = try #require(lost.map(\.address.offset).min())
    let nameEnd = first + PackLayout.recordHeaderByteCount + place.nameLength
    #expect(first < page.lowerBound && (nameEnd > page.lowerBound) == (place.nameLength == 200))
    func expectTheOthers(_ store: BlobStore) throws {
      for number in 0..<count {
        let isLost = lost.contains { $0.payload == payload(number) }
        #expect(try store.load(key(number))?.payload == (isLost ? nil : payload(number)), "\(number)")
      }
    }
    // Before the chunks, each boot reads the pack's header.
    let reads = Lock(0)
    func trace(_ isBad: @escaping @Sendable (Int) -> Bool) -> CallTrace {
      let trace = CallTrace()
      trace.onCall { call, path in
        guard call == .read, path.lastComponent?.string == "p-0" else { return nil }
        return reads.withLock { reads in
          reads += 1
          return isBad(reads) ? .fail(.ioError) : nil
        }
      }
      return trace
    }
    try NextBoot.begin(in: cache.root.string)
    #expect(try store(files: trace { _ in false }.files).load("none") == nil)
    let whole = reads.withLock { $0 } - Set(records.map(\.address.chunk)).count + 1
    let bad = whole + 1 + place.page
    reads.withLock { $0 = 0 }
    try NextBoot.begin(in: cache.root.string)
    try expectTheOthers(store(files: trace { $0 == whole || $0 == bad }.files))
    #expect(reads.withLock { $0 } > bad)
    // The block can be read again.
    try NextBoot.begin(in: cache.root.string)
    try expectTheOthers(store())
    for record in lost { try store().store(payload(0), for: BlobKey(record.name)) }
    #expect(try PackAudit(of: cache.root).flaws == [])
  }

  /// If the whole medium is unavailable, no record is lost.
  @Test func nothingIsLostWhereNothingCanBeRead() throws {
    do { try store().store(payload(100), for: "key") }
    try NextBoot.begin(in: cache.root.string)
    let trace = CallTrace()
    let reads = Lock(0)
    trace.onCall { call, path in
      guard call == .read, path.lastComponent?.string == "p-0" else { return nil }
      // The header can be read, but no chunk.
      return reads.withLock { reads in
        reads += 1
        return reads > 2 ? .fail(.ioError) : nil
      }
    }
    let hindered = try store(files: trace.files)
    #expect(expect(.fileSystem) { _ = try hindered.load("key") }?.errno == .ioError)
    #expect(reads.withLock { $0 } > 3)
    #expect(try store().load("key")?.payload == payload(100))
  }
}
