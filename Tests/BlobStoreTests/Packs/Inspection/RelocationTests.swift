import BlobRecord
import BlobStore
import Foundation
import Posix
import Synchronization
import SystemPackage
import TestSupport
import Testing

/// Existing records move into packs, and out of them.
@Suite struct RelocationTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  private func packing(
    _ bound: Int = 8192, _ change: (inout BlobStore.Configuration) -> Void = { _ in }
  ) throws -> BlobStore {
    try cache.store {
      $0.packing = .upTo(bound)
      change(&$0)
    }
  }

  private func recordFiles() throws -> [String] { try cache.files().filter { !$0.hasPrefix(".") }.sorted() }

  private struct Item {
    let key: BlobKey
    let byteCount: Int
    var ttl: Duration?
    var locks = BlobStore.LockPolicy.none
    var extendedData: Data?
  }

  private static let items = [
    Item(key: "empty", byteCount: 0), Item(key: "small", byteCount: 100, ttl: .seconds(1000)),
    Item(key: "locked", byteCount: 200, locks: .one),
    Item(key: "extended", byteCount: 5, extendedData: Data([1, 2, 3])),
    Item(key: "page", byteCount: 4096), Item(key: "large", byteCount: 9000),
  ]

  private func fill(_ store: BlobStore) throws {
    for item in Self.items {
      try store.store(
        payload(item.byteCount), for: item.key, ttl: item.ttl, locks: item.locks, extendedData: item.extendedData)
    }
  }

  private func expectItems(_ store: BlobStore, sourceLocation: SourceLocation = #_sourceLocation) throws {
    for item in Self.items {
      let header = try #require(try store.header(for: item.key), sourceLocation: sourceLocation)
      #expect(header.refCount == (item.locks == .one ? 1 : 0), sourceLocation: sourceLocation)
      #expect(header.ttl == (item.ttl == nil ? 0 : 1000), sourceLocation: sourceLocation)
      let blob = try store.load(item.key)
      #expect(blob?.payload == payload(item.byteCount), sourceLocation: sourceLocation)
      #expect(blob?.extendedData == item.extendedData, sourceLocation: sourceLocation)
    }
  }

  @Test(arguments: BlobStore.Durability.allCases, [RecordNaming.encoded, .sha256])
  func recordsMoveBothWays(durability: BlobStore.Durability, naming: RecordNaming) throws {
    let plain = try cache.store {
      $0.durability = durability
      $0.layout.naming = naming
    }
    try fill(plain)
    _ = try plain.collect()
    let before = try plain.usageEstimate()
    let store = try packing {
      $0.durability = durability
      $0.layout.naming = naming
    }
    let packed = try store.packRecords()
    #expect([packed.moved, packed.unsuited, packed.expired, packed.damaged, packed.failed] == [5, 1, 0, 0, 0])
    #expect(try store.usage().packedRecords == 5)
    #expect(try recordFiles().count == 1)
    try expectItems(store)
    // A program that opened the packs earlier finds the records, too.
    try expectItems(plain)
    #expect(try store.usageEstimate() == before)
    #expect(try store.packRecords().moved == 0)
    try store.checkInvariants()

    let unpacked = try plain.unpackRecords()
    #expect(
      [unpacked.moved, unpacked.unsuited, unpacked.expired, unpacked.damaged, unpacked.failed] == [5, 0, 0, 0, 0])
    #expect(unpacked.movedBytes == packed.movedBytes)
    #expect(try store.usage().packedRecords == 0)
    #expect(try recordFiles().count == 6)
    try expectItems(store)
    #expect(try store.usageEstimate() == before)
    try store.checkInvariants()
    #expect(try store.packUsage().liveBytes == 0)
    // The packs are removed, and programs that follow the settings create no new ones.
    #expect(try !cache.exists(".packs"))
    #expect(try BlobStore.settings(of: cache.root).packing == .off)
    let follower = try cache.store {
      $0.packing = nil
      $0.layout.naming = naming
    }
    try follower.store(payload(7), for: "later")
    #expect(try recordFiles().count == 7)
    // A program configured to pack creates new packs, and programs that had the old ones open find them.
    try store.store(payload(8), for: "later")
    #expect(try recordFiles().count == 6)
    #expect(try plain.load("later")?.payload == payload(8))
    #expect(try follower.load("later")?.payload == payload(8))
    try expectItems(store)
  }

  /// An expired record does not move, and its pack remains until a collection has removed the record.
  @Test func packsStayWithTheRecordsThatStay() throws {
    let store = try packing()
    try store.store(payload(10), for: "brief", ttl: .seconds(60))
    try store.store(payload(20), for: "long", ttl: .seconds(6000))
    cache.clock.advance(by: 100)
    let report = try store.unpackRecords()
    #expect([report.moved, report.expired] == [1, 1])
    #expect(try cache.exists(".packs/p-0"))
    #expect(try store.usage().packedRecords == 1)
    #expect(try store.collect().expired == 1)
    _ = try store.unpackRecords()
    #expect(try !cache.exists(".packs"))
    #expect(try store.load("long")?.payload == payload(20))
    try store.checkInvariants()
  }

  /// A store that is the only one of its directory takes no stripes.
  @Test func aStoreWithoutOthersRemovesEmptyPacks() throws {
    let store = try packing { $0.access.sharing = .exclusive }
    for key in 0..<3 { try store.store(payload(100 + key), for: "key \(key)", ttl: .seconds(6000)) }
    #expect(try cache.exists(".packs/p-0"))
    #expect(try store.unpackRecords().moved == 3)
    #expect(try !cache.exists(".packs"))
    for key in 0..<3 { #expect(try store.load("key \(key)")?.payload == payload(100 + key)) }
    try store.checkInvariants()
  }

  /// Settings are written there only by a program that allows world-writable directories, as this one does.
  @Test func recordsLeavePacksWhereEverybodyMayWrite() throws {
    try cache.makeDirectory("")
    try check(chmod(cache.path(""), 0o777), "chmod")
    let store = try packing { $0.access.allowsWorldWritable = true }
    try store.store(payload(10), for: "key")
    #expect(try store.usage().packedRecords == 1)
    #expect(try store.unpackRecords().moved == 1)
    #expect(try !cache.exists(".packs"))
    #expect(try store.load("key")?.payload == payload(10))
  }

  /// An interrupted relocation continues; here, the first call had a lower bound.
  @Test func theRestIsMovedByAnotherCall() throws {
    try fill(try cache.store())
    #expect(try packing(300).packRecords().moved == 4)
    let store = try packing()
    #expect(try store.packRecords().moved == 1)
    try expectItems(store)
  }

  @Test func thereMustBePacks() throws {
    try fill(try cache.store())
    expect(.invalidConfiguration) { _ = try cache.store().packRecords() }
    #expect(try recordFiles().count == 6)
    #expect(try cache.store().unpackRecords() == BlobStore.RelocationReport())
    let verbatim = try Cache().store {
      $0.layout.naming = .verbatim
      $0.packing = .upTo(8192)
    }
    try verbatim.store(payload(5), for: "key")
    expect(.invalidConfiguration) { _ = try verbatim.packRecords() }
  }

  @Test func whatMayBeNoCacheIsLeftAlone() throws {
    try cache.write(Array("notes".utf8), to: "ke/key")
    expect(.notACache) { _ = try packing().packRecords() }
    #expect(try cache.files() == ["ke/key"])
  }

  @Test func foreignFilesAreLeftAlone() throws {
    let store = try packing()
    try fill(try cache.store())
    try cache.write(Array("notes".utf8), to: "notes.txt")
    try cache.write(Array("notes".utf8), to: "ke/.hidden")
    #expect(try store.packRecords().moved == 5)
    #expect(try cache.exists("notes.txt"))
    #expect(try cache.exists("ke/.hidden"))
  }

  @Test func expiredAndDamagedRecordsStay() throws {
    let plain = try cache.store()
    for key in ["expired", "header", "payload", "sound"] as [BlobKey] {
      try plain.store(payload(100), for: key, ttl: .seconds(key == "expired" ? 10 : 1000))
    }
    var bytes = try cache.bytes("he/header")
    bytes[20] ^= 1
    try cache.write(bytes, to: "he/header")
    bytes = try cache.bytes("pa/payload")
    bytes[70] ^= 1
    try cache.write(bytes, to: "pa/payload")
    cache.clock.advance(by: 11)
    let report = try packing().packRecords()
    #expect([report.moved, report.expired, report.damaged, report.unsuited, report.failed] == [1, 1, 2, 0, 0])
    #expect(try recordFiles() == ["ex/expired", "he/header", "pa/payload"])
  }

  @Test func expiredRecordsStayPacked() throws {
    let store = try packing()
    try store.store(payload(100), for: "expired", ttl: .seconds(10))
    try store.store(payload(100), for: "live", ttl: .seconds(100))
    cache.clock.advance(by: 11)
    let report = try store.unpackRecords()
    #expect([report.moved, report.expired, report.damaged] == [1, 1, 0])
    #expect(try recordFiles() == ["li/live"])
  }

  /// A call waits until its timeout for a record that another change holds.
  @Test func aRecordThatIsHeldIsLeft() throws {
    let plain = try cache.store()
    for key in ["held", "other"] as [BlobKey] { try plain.store(payload(100), for: key) }
    let store = try packing { $0.access.lockTimeout = .milliseconds(1) }
    try plain.withExclusiveAccess(to: "held") { _ in
      let report = try store.packRecords()
      #expect([report.moved, report.failed] == [1, 1])
    }
    #expect(try recordFiles() == ["he/held"])
    #expect(try store.packRecords().moved == 1)
  }

  /// A collection of another process may remove a subdirectory before the record's file is in it.
  @Test func aSubdirectoryThatVanishesIsMadeAgain() throws {
    try packing().store(payload(100), for: "key")
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    let isFirst = Atomic(true)
    trace.onCall { call, path in
      guard path.string.contains("/ke/.tmp-"), isFirst.exchange(false, ordering: .relaxed) else { return nil }
      return .fail(.noSuchFileOrDirectory)
    }
    #expect(try store.unpackRecords().moved == 1)
    let hasFailed = !isFirst.load(ordering: .relaxed)
    #expect(hasFailed)
    #expect(try recordFiles() == ["ke/key"])
    #expect(try store.load("key")?.payload == payload(100))
  }

  @Test func manyRecordsMakeTheIndexLarger() throws {
    let plain = try cache.store()
    for number in 0..<600 { try plain.store(payload(10), for: BlobKey("key \(number)")) }
    let store = try packing { $0.leastPackIndexEntryCount = 100 }
    #expect(try store.packRecords().moved == 600)
    for number in 0..<600 { #expect(try store.load(BlobKey("key \(number)"))?.payload == payload(10)) }
    try store.checkInvariants()
  }
}
