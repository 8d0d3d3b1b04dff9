import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, H: extended data of records, and keys stored in records.
@Suite struct ExtendedDataTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  private static let longKey = BlobKey("https://example.com/" + String(repeating: "long/", count: 60))

  /// Returns the rule that a damaged record violates, according to the error of `body`.
  private func recordError(_ body: () throws -> Void) -> RecordError? {
    do {
      try body()
    } catch let error as BlobStoreError {
      return error.recordError
    } catch {
      Issue.record("\(error)")
    }
    return nil
  }

  /// Sizes around the limits at which the method of reading changes.
  private static let sizes = [0, 1, 900, 940, 960, 8150, 8192, 100_000, 1 << 20, (1 << 20) + 1]

  /// H1: extended data are returned with the blob, whether the key is in the file name or in the record.
  @Test(arguments: sizes, [1, 24, 4096]) func extendedDataComeBackWithTheBlob(size: Int, dataByteCount: Int) throws {
    for key in ["key", Self.longKey] {
      for isOrdinary in [true, false] {
        let store = try cache.store(files: Files(accessTimeTellsOwner: isOrdinary))
        try store.store(payload(size), for: key, extendedData: payload(dataByteCount))
        let blob = try #require(try store.load(key))
        #expect(blob.payload == payload(size) && blob.extendedData == payload(dataByteCount))
        #expect(blob.header.payloadSize == UInt64(size))
        #expect(try store.extendedData(for: key) == payload(dataByteCount))
        #expect(try store.header(for: key) == blob.header)
        #expect(try store.verify().soundRecords == (key == "key" ? 1 : 2))
      }
    }
  }

  /// H1: a blob whose payload comes from a file may have extended data, too.
  @Test func contentsHaveExtendedData() throws {
    let file = cache.outside.path.appending("input")
    try payload(300_000).write(to: URL(filePath: file.string))
    let store = try cache.store()
    try store.store(contentsOf: file, for: "key", extendedData: payload(9))
    #expect(try store.load("key")?.payload == payload(300_000))
    #expect(try store.extendedData(for: "key") == payload(9))
  }

  /// H2: records without extended data have the original format.
  @Test(arguments: [nil, Data()]) func withoutThemNothingIsAdded(data: Data?) throws {
    let store = try cache.store()
    try store.store(payload(100), for: "key", extendedData: data)
    let blob = try #require(try store.load("key"))
    #expect(blob.extendedData == nil && blob.header.extensionEnd == nil && blob.header.reserved4 == 0)
    #expect(try store.extendedData(for: "key") == nil)
    #expect(try store.usage().bytes == 164)
  }

  /// H3: a store removes the previous extended data.
  @Test func aStoreTakesTheOldOnesAway() throws {
    let store = try cache.store()
    try store.store(payload(100), for: "key", extendedData: payload(5))
    try store.store(payload(100), for: "key", locks: .keep)
    #expect(try store.load("key")?.extendedData == nil)
  }

  /// H4: payload, locks and age are unchanged, and the size of the file is limited.
  @Test(arguments: ["key", longKey], [0, 5000]) func theyAreReplacedWithoutThePayload(key: BlobKey, size: Int) throws {
    let seed = SeededGenerator.announcedSeed(for: "theyAreReplacedWithoutThePayload")
    var generator = SeededGenerator(seed: seed)
    let store = try cache.store()
    try store.store(payload(size), for: key, ttl: .seconds(1000), locks: .one)
    let before = try #require(try store.header(for: key))
    cache.clock.advance(by: 10)
    for _ in 0..<200 {
      let data = Data(generator.bytes(Int.random(in: 0...4096, using: &generator)))
      #expect(try store.setExtendedData(data, for: key) == .done)
      let blob = try #require(try store.load(key))
      #expect(blob.extendedData == (data.isEmpty ? nil : data) && blob.payload == payload(size), "seed \(seed)")
    }
    let after = try #require(try store.header(for: key))
    #expect(after.refCount == 1 && after.ttl == before.ttl && after.updateTime == before.updateTime)
    let usage = try store.usage()
    #expect(usage.bytes <= Int64(64 + size + 3 * (4096 + key.string.utf8.count + 16)))
    #expect(try store.setExtendedData(nil, for: key) == .done)
    #expect(try store.load(key)?.extendedData == nil)
    #expect(try store.unlock(key) == .done && store.touch(key) == .done)
    #expect(try store.verify().soundRecords == 1)
  }

  /// H4.
  @Test func whatIsNotThereHasNone() throws {
    let store = try cache.store()
    #expect(try store.setExtendedData(payload(3), for: "key") == .notFound)
    #expect(try store.extendedData(for: "key") == nil)
    try store.store(payload(1), for: "key", ttl: .seconds(1), extendedData: payload(3))
    cache.clock.advance(by: 2)
    #expect(try store.setExtendedData(payload(4), for: "key") == .notFound)
    #expect(try store.extendedData(for: "key") == nil)
  }

  /// H5.
  @Test func moreThan4KiBAreRefused() throws {
    let store = try cache.store()
    expect(.extendedDataTooLarge) { try store.store(payload(1), for: "key", extendedData: payload(4097)) }
    try store.store(payload(1), for: "key", extendedData: payload(4096))
    expect(.extendedDataTooLarge) { try store.setExtendedData(payload(4097), for: "key") }
    #expect(try store.load("key")?.extendedData == payload(4096))
  }

  /// H6: formats shared with other programs refuse extended data.
  @Test func aSharedDirectoryRefusesThem() throws {
    let changes: [(inout BlobStore.Configuration) -> Void] = [
      { $0.format = .reference }, { $0.layout.naming = .verbatim }, { $0 = .sptPersistentCache },
    ]
    for change in changes {
      let cache = try Cache()
      let store = try cache.store(change)
      expect(.extendedDataRefused) { try store.store(payload(1), for: "key", extendedData: payload(1)) }
      try store.store(payload(1), for: "key", extendedData: Data())
      expect(.extendedDataRefused) { try store.setExtendedData(payload(1), for: "key") }
      #expect(try store.setExtendedData(nil, for: "key") == .done)
      #expect(try store.header(for: "key")?.extensionEnd == nil)
    }
  }

  /// N7, U2: keys that are stored in records are listed, with every naming that stores them there.
  @Test(arguments: [RecordNaming.encoded, .sha256], RecordArrangement.allCases)
  func keptKeysAreListed(naming: RecordNaming, arrangement: RecordArrangement) throws {
    let store = try cache.store { $0.layout = .init(naming: naming, arrangement: arrangement) }
    let keys = (0..<20).map { BlobKey(Self.longKey.string + "\($0)") } + ["short", "https://example.com/short"]
    for key in keys { try store.store(payload(9), for: key, extendedData: payload(2)) }
    #expect(Set(try store.records().map(\.key)) == Set(keys))
    #expect(try store.records().allSatisfy { $0.extendedData == payload(2) })
    #expect(Set(try store.records(prefix: "https://").map(\.key)) == Set(keys.filter { $0 != "short" }))
    let prefix = Self.longKey.string + "1"
    #expect(try store.records(prefix: prefix).map(\.key).count == 11)
    #expect(try store.load(prefix: prefix) { $0.min(by: BlobKey.precedes) }?.key.string == prefix)
    #expect(try store.remove(prefix: prefix).files == 11)
    #expect(try store.records(prefix: prefix).map(\.key) == [])
    #expect(try store.usage().foreignFiles == 0)
    #expect(try store.usage().records == 11)
  }

  /// N8: a record that contains a different key than its name indicates is damaged, and belongs to neither key.
  @Test(arguments: [RecordNaming.encoded, .sha256], [9, 100_000]) func aRecordThatKeepsAnotherKeyIsDamaged(
    naming: RecordNaming, size: Int
  ) throws {
    let store = try cache.store { $0.layout.naming = naming }
    let (key, other) = (Self.longKey, BlobKey(Self.longKey.string + "other"))
    try store.store(payload(size), for: key)
    try store.store(payload(size), for: other)
    // The complete extension of the other record is written to this record's file.
    var header = try #require(try store.header(for: key))
    let tail = RecordExtension(key: other).encoded
    header.extensionEnd = UInt32(tail.count)
    let file = try store.filePath(for: key).string
    try (header.encodedBytes + [UInt8](payload(size)) + tail).withUnsafeBytes {
      try Data($0).write(to: URL(filePath: file))
    }
    #expect(recordError { _ = try store.load(key) }?.code == 109)
    #expect(recordError { _ = try store.openReader(for: key) }?.code == 109)
    #expect(recordError { _ = try store.extendedData(for: key) }?.code == 109)
    #expect(recordError { _ = try store.setExtendedData(payload(1), for: key) }?.code == 109)
    let entry = try #require(try store.records().first { $0.state == .damaged })
    #expect(entry.damage?.code == 109 && entry.key == nil)
    #expect(try store.verify().damagedFiles == 1)
    let inspection = try store.inspect(FilePath(file))
    #expect(inspection.damage?.code == 109 && inspection.state == .damaged && inspection.key == nil)
    #expect(try store.load(other)?.payload == payload(size))
  }

  /// H7: the extension has its own checksum.
  @Test(arguments: [20, 8000, 100_000]) func aDamagedExtensionIsFound(size: Int) throws {
    let store = try cache.store()
    try store.store(payload(size), for: "key", locks: .one, extendedData: payload(50))
    let file = URL(filePath: try store.filePath(for: "key").string)
    var bytes = try Data(contentsOf: file)
    bytes[64 + size + 10] ^= 1
    try bytes.write(to: file)
    #expect(recordError { _ = try store.load("key") } == .invalidExtension)
    #expect(recordError { _ = try store.extendedData(for: "key") } == .invalidExtension)
    #expect(recordError { _ = try store.setExtendedData(payload(1), for: "key") } == .invalidExtension)
    // The header is sound, so its locks and times are available.
    #expect(try store.header(for: "key")?.refCount == 1)
    #expect(try store.records().map(\.damage) == [.invalidExtension])
    #expect(try store.verify().damagedFiles == 1)
    let inspection = try store.inspect(store.filePath(for: "key"))
    #expect(inspection.verdict(on: .reserved4) == .broken(.invalidExtension))
    // A store keeps the locks in the header of the replaced record.
    try store.store(payload(1), for: "key", locks: .keep)
    #expect(try store.header(for: "key")?.refCount == 1)
  }

  /// H8: a file with a second link, such as a backup, is not changed.
  @Test func aLinkedRecordIsCopied() throws {
    let store = try cache.store()
    try store.store(payload(100_000), for: Self.longKey, extendedData: payload(5))
    let backup = cache.outside.url("backup")
    try FileManager.default.linkItem(at: URL(filePath: store.filePath(for: Self.longKey).string), to: backup)
    let before = try Data(contentsOf: backup)
    #expect(try store.setExtendedData(payload(6), for: Self.longKey) == .done)
    #expect(try Data(contentsOf: backup) == before)
    #expect(try store.load(Self.longKey)?.payload == payload(100_000))
    #expect(try store.extendedData(for: Self.longKey) == payload(6))
  }

  /// H4: operations that change only the header keep extended data.
  @Test func locksAndTouchesKeepThem() throws {
    let store = try cache.store()
    try store.store(payload(10), for: "key", extendedData: payload(5))
    cache.clock.advance(by: 5)
    #expect(try store.touch("key") == .done && store.lock("key") == .done && store.unlock("key") == .done)
    #expect(try store.load("key")?.extendedData == payload(5))
  }

  /// H1, N7: blobs that are written and read in pieces have extended data and long keys, too.
  @Test(arguments: ["key", longKey], [nil, 300_000] as [Int64?]) func streamsHaveThem(
    key: BlobKey, expectedSize: Int64?
  ) throws {
    let store = try cache.store()
    var writer = try store.openWriter(for: key, expectedSize: expectedSize, extendedData: payload(9))
    for _ in 0..<3 { try writer.append(payload(100_000)) }
    try writer.commit()
    let whole = payload(100_000) + payload(100_000) + payload(100_000)
    let reader = try #require(try store.openReader(for: key))
    #expect(reader.byteCount == 300_000 && reader.extendedData == payload(9))
    #expect(try reader.read(0..<300_000) == whole && reader.isVerified)
    #expect(try reader.read(299_990..<300_000) == whole.suffix(10))
    try reader.withMappedBytes { #expect($0.byteCount == 300_000) }
    let blob = try #require(try store.load(key))
    #expect(blob.payload == whole && blob.extendedData == payload(9))
    #expect(try store.records(prefix: key.string).map(\.key) == [key])
    #expect(try store.verify().soundRecords == 1)
    // A later replacement does not affect the reader.
    #expect(try store.setExtendedData(payload(8), for: key) == .done)
    #expect(reader.extendedData == payload(9))
    expect(.extendedDataTooLarge) { _ = try store.openWriter(for: key, extendedData: payload(4097)) }
  }

  /// B2: the bin is not used, because a power failure could leave the dead record's extension with a valid checksum.
  @Test func aFileOfTheBinIsNotOverwrittenWithThem() throws {
    let store = try cache.store { $0.recycling = .automatic }
    for number in 0..<20 { try store.store(payload(3000), for: BlobKey("dead \(number)"), extendedData: payload(9)) }
    for number in 0..<20 { try store.remove(BlobKey("dead \(number)")) }
    let before = try store.usage().recycledFiles
    #expect(before > 0)
    for number in 0..<20 { try store.store(payload(3000), for: BlobKey("new \(number)"), extendedData: payload(9)) }
    #expect(try store.usage().recycledFiles == before)
  }

  /// B2: a file from the recycling bin is truncated at the end of the new record.
  @Test func recycledFilesTakeThem() throws {
    let store = try cache.store { $0.recycling = .automatic }
    for round in 0..<20 {
      for number in 0..<4 {
        let key = BlobKey("key \(number)")
        let data = (round + number).isMultiple(of: 3) ? nil : payload(100 * number + round + 1)
        try store.store(payload(3000), for: key, extendedData: data)
        let blob = try #require(try store.load(key))
        #expect(blob.payload == payload(3000) && blob.extendedData == data)
      }
    }
    #expect(try store.verify().soundRecords == 4)
  }
}
