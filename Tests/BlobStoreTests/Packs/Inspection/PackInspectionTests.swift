import BlobRecord
import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// The inspection of packed records and packs, which may be damaged and at any path.
@Suite struct PackInspectionTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  private func store() throws -> BlobStore { try cache.store { $0.packing = .upTo(1000) } }

  private var packPath: FilePath { FilePath(cache.path(".packs/p-0")) }

  private func chunks(_ store: BlobStore, _ path: FilePath) throws -> [PackInspection.Chunk] {
    let pack = try #require(try store.inspectPack(path))
    return try (0..<PackInspection.chunkCount).compactMap { try pack.chunk($0) }
  }

  private func change(at offset: Int, _ file: String, _ change: (UInt8) -> UInt8) throws {
    let handle = try FileHandle(forUpdating: URL(filePath: file))
    defer { try? handle.close() }
    try handle.seek(toOffset: UInt64(offset))
    let byte = try #require(try handle.read(upToCount: 1)?.first)
    try handle.seek(toOffset: UInt64(offset))
    try handle.write(contentsOf: Data([change(byte)]))
  }

  private func damage(_ store: BlobStore, _ key: BlobKey, at offset: Int) throws {
    let place = try #require(try store.records().first { $0.key == key }?.packed)
    let record = PackAddress(pack: place.pack, chunk: place.chunk, offset: place.offset)
    try change(at: record.fileOffset + offset, cache.path(".packs/p-\(place.pack)")) { $0 ^ 1 }
  }

  @Test func aPackedRecordIsShownAsItsFile() throws {
    let store = try store()
    try store.store(Data("{\"a\":1}".utf8), for: "key", ttl: .seconds(100), locks: .one, extendedData: Data([1, 2]))
    let packed = try #require(try store.inspectRecord(of: "key"))
    let place = try #require(packed.packed)
    #expect(place == (try store.records().first { $0.key == "key" }?.packed))
    #expect(place.sequence > 0)
    #expect(packed.path.string.hasSuffix("/.packs/p-0"))
    #expect(packed.state == .locked)
    #expect(packed.damage == nil)
    #expect(packed.extendedData == Data([1, 2]))
    #expect(packed.payloadKind == .json)
    #expect(try store.unpackRecords().moved == 1)
    let file = try #require(try store.inspectRecord(of: "key"))
    #expect(file.packed == nil)
    #expect(file.path.string.hasSuffix("/ke/key"))
    #expect(file.headerBytes == packed.headerBytes)
    #expect(file.fileSize == packed.fileSize)
    #expect(file.payloadChecksum == packed.payloadChecksum)
    #expect(try store.inspectRecord(of: "other") == nil)
  }

  /// The index contains the last use, so the inspected record file shows it, too.
  @Test func theLastUseIsShown() throws {
    let store = try store()
    try store.store(payload(5), for: "key")
    cache.clock.advance(by: 60)
    _ = try store.load("key")
    #expect(try store.inspectRecord(of: "key")?.storedHeader?.updateTime == UInt64(cache.now))
  }

  @Test(arguments: [(16, true), (43, false)]) func damageOfAPackedRecordIsTold(offset: Int, isOfHeader: Bool) throws {
    let store = try store()
    for key in ["one", "two", "six"] as [BlobKey] { try store.store(payload(100), for: key) }
    try damage(store, "two", at: offset)
    let found = try #require(try store.inspectRecord(of: "two"))
    #expect(found.state == .damaged)
    #expect((found.storedHeader == nil) == isOfHeader)
    #expect(found.packed != nil)
    let chunk = try #require(try chunks(store, packPath).first)
    switch found.damage {
    case .invalidHeaderCRC:
      #expect(isOfHeader)
      #expect(chunk.records.map(\.key) == ["one", "six"])
      #expect(chunk.unreadableByteCount > 100)
    case .payloadChecksumMismatch:
      #expect(!isOfHeader)
      #expect(chunk.records.map(\.hasSoundPayload) == [true, false, true])
      #expect(chunk.unreadableByteCount == 0)
    default: Issue.record("\(String(describing: found.damage))")
    }
    let entry = try #require(try store.records().first { $0.key == "two" })
    #expect(try store.inspect(entry)?.damage == found.damage)
  }

  @Test func aPackShowsDeadAndLiveRecords() throws {
    let store = try store()
    for key in ["a", "b", "c"] as [BlobKey] { try store.store(payload(100), for: key, ttl: .seconds(100)) }
    try store.store(payload(7), for: "b", ttl: .seconds(100))
    try store.remove("c")
    let pack = try #require(try store.inspectPack(packPath))
    #expect(pack.flaw == nil)
    #expect(pack.number == 0)
    #expect(pack.mediumSize > 0)
    let found = try chunks(store, packPath)
    #expect(found.count == 1)
    let chunk = try #require(found.first)
    #expect(chunk.state == .open)
    #expect(chunk.owner != 0)
    #expect(chunk.inFlight == 0)
    #expect(chunk.latestExpiry == UnixTime(seconds: cache.now + 100))
    #expect(chunk.records.map(\.key) == ["a", "b", "c", "b"])
    #expect(chunk.records.map(\.isDead) == [false, true, true, false])
    #expect(chunk.records.map(\.header.payloadSize) == [100, 100, 100, 7])
    let sequences = chunk.records.map(\.place.sequence)
    #expect(sequences == sequences.sorted())
    #expect(chunk.byteCount >= chunk.records.reduce(0) { $0 + $1.byteCount })
  }

  @Test func aCopyOfAPackMayLieAnywhere() throws {
    let store = try store()
    for number in 0..<200 { try store.store(payload(100 + number), for: BlobKey("key \(number)")) }
    let copy = cache.outside.path.appending("backup")
    try FileManager.default.copyItem(atPath: packPath.string, toPath: copy.string)
    #expect(try #require(try store.inspectPack(copy)).flaw == nil)
    #expect(try chunks(store, copy).flatMap(\.records).count == 200)
  }

  @Test func whatIsNoPackIsTold() throws {
    let store = try store()
    try store.store(payload(5000), for: "key")
    try store.store(payload(5), for: "packed")
    #expect(try store.inspectPack(FilePath(cache.path("ke/key"))) == nil)
    #expect(try store.inspectPack(FilePath(cache.path(".packs/index"))) == nil)
    expect(.fileSystem) { _ = try store.inspectPack(FilePath(cache.path(".packs/p-1"))) }
    expect(.foreignFile) { _ = try store.inspectPack(FilePath(cache.path(".packs"))) }
  }

  @Test(arguments: [(0, "begin as a pack"), (8, "later than this program"), (41, "head is damaged")])
  func aFlawOfTheHeadIsToldAndTheRecordsAreShown(offset: Int, flaw: String) throws {
    let store = try store()
    try store.store(payload(5), for: "key")
    try change(at: offset, packPath.string) { $0 ^ 0x40 }
    let pack = try #require(try store.inspectPack(packPath))
    #expect(pack.flaw?.contains(flaw) == true, "\(pack.flaw ?? "none")")
    #expect(try chunks(store, packPath).flatMap(\.records).map(\.key) == ["key"])
  }

  /// Random bytes, or a truncated file, cause neither a crash nor false records.
  @Test func anyBytesHarmNobody() throws {
    let seed = SeededGenerator.announcedSeed(for: "PackInspectionTests")
    let store = try store()
    for number in 0..<50 { try store.store(payload(10 * number), for: BlobKey("key \(number)")) }
    let places = Set(try chunks(store, packPath).flatMap(\.records).map(\.place))
    let parts = [
      0..<64, PackLayout.tableOffset..<(PackLayout.tableOffset + 256),
      PackLayout.deadSectorsOffset..<(PackLayout.deadSectorsOffset + 4096),
      PackLayout.chunksOffset..<(PackLayout.chunksOffset + 20_000),
    ]
    for round in 0..<40 {
      var generator = SeededGenerator(seed: seed, round)
      let copy = cache.outside.path.appending("p-\(round)")
      try FileManager.default.copyItem(atPath: packPath.string, toPath: copy.string)
      for part in parts where Bool.random(using: &generator) {
        for _ in 0..<Int.random(in: 1...40, using: &generator) {
          let byte = UInt8.random(in: 0 ... .max, using: &generator)
          try change(at: Int.random(in: part, using: &generator), copy.string) { _ in byte }
        }
      }
      if round.isMultiple(of: 4) {
        let end = Int.random(in: 0...(PackLayout.chunksOffset + 30_000), using: &generator)
        try check(truncate(copy.string, off_t(end)), "truncate")
      }
      guard let pack = try store.inspectPack(copy) else { continue }
      for number in 0..<8 {
        guard let chunk = try pack.chunk(number) else { continue }
        let found = chunk.records.filter { pack.number == 0 && !places.contains($0.place) }
        #expect(found.isEmpty, "seed \(seed), round \(round): \(found)")
      }
      try FileManager.default.removeItem(atPath: copy.string)
    }
  }
}
