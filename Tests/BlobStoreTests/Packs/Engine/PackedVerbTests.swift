import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// What a program sees of records that lie in packs: the same as of records that are files.
@Suite struct PackedVerbTests: PackedSuite {
  let cache: Cache

  init() throws { cache = try Cache() }

  @Test(arguments: [0, 1, 100, 4096, 8000])
  func aSmallBlobLiesInAPackAndIsLoaded(byteCount: Int) throws {
    let store = try store()
    try store.store(payload(byteCount), for: "key", ttl: .seconds(100), extendedData: Data([1, 2, 3]))
    let blob = try store.load("key")
    #expect(blob?.payload == payload(byteCount))
    #expect(blob?.extendedData == Data([1, 2, 3]))
    #expect(blob?.header.ttl == 100)
    #expect(try cache.files() == Cache.filesOfPacks)
    #expect(try store.contains("key"))
    #expect(try store.header(for: "key")?.payloadSize == UInt64(byteCount))
    // Another process has the packs open anew.
    #expect(try cache.store().load("key")?.payload == payload(byteCount))
  }

  /// The pack grows while it is mapped, and another process replaces what is read.
  @Test func loadsMayReadFromMemory() throws {
    let (writer, trace) = (try store(), CallTrace())
    try writer.store(payload(10), for: "first")
    let reader = try cache.store(files: trace.files) {
      $0.packing = .upTo(8192)
      $0.packReads = .mapped
    }
    #expect(try reader.load("first")?.payload == payload(10))
    _ = trace.take()
    func bytes(_ number: Int, _ seed: UInt64) -> Data { payload(number * 3, seed) }
    for number in 0..<2000 { try writer.store(bytes(number, 1), for: BlobKey("key \(number)")) }
    for number in 0..<2000 { #expect(try reader.load(BlobKey("key \(number)"))?.payload == bytes(number, 1)) }
    for number in 0..<2000 { try writer.store(bytes(number, 2), for: BlobKey("key \(number)")) }
    for number in 0..<2000 { #expect(try reader.load(BlobKey("key \(number)"))?.payload == bytes(number, 2)) }
    #expect(trace.count(.read) == 0)
    // Once a chunk, where records come one after the other. The root is looked at once a second.
    #expect(trace.count { $0.call == .status && $0.path.hasSuffix("p-0") } < 30)
    try flipBit(of: ".packs/p-0", at: 2_166_784 + 50)
    #expect(throws: BlobStoreError.self) { try reader.load("first") }
  }

  /// A store that finds the pack shorter than an entry says reads by a call, and tells the damage.
  @Test func whatWasCutOffIsNotReadFromMemory() throws {
    try store().store(payload(100), for: "key")
    try #require(truncate(cache.path(".packs/p-0"), 2_166_784 + 20) == 0)
    let reader = try cache.store {
      $0.packing = .upTo(8192)
      $0.packReads = .mapped
    }
    #expect(throws: BlobStoreError.self) { try reader.load("key") }
  }

  /// Something that is no directory lies where the subdirectory of the key's file would be.
  @Test func aFileInThePlaceOfASubdirectoryIsNoRecord() throws {
    let store = try store()
    // The keys' stripes may have files from here on.
    try store.store(payload(9000), for: "key")
    let subdirectory = try store.filePath(for: "key").removingLastComponent()
    try store.remove("key")
    try #require(rmdir(subdirectory.string) == 0)
    try Data([1]).write(to: URL(filePath: subdirectory.string))
    try store.store(payload(100), for: "key")
    #expect(try store.load("key")?.payload == payload(100))
    #expect(try store.remove("key") == .done)
    #expect(try store.load("key") == nil)
  }

  @Test func aLargeBlobIsAFile() throws {
    try store().store(payload(8193), for: "key")
    #expect(try cache.files() == ["ke/key", ".blobcache.conf"])
  }

  @Test(arguments: [(100, 200), (100, 9000), (9000, 100), (9000, 9001)])
  func aBlobIsReplaced(before: Int, after: Int) throws {
    let store = try store()
    try store.store(payload(before, 1), for: "key")
    try store.store(payload(after, 2), for: "key")
    #expect(try store.load("key")?.payload == payload(after, 2))
    #expect(try cache.store().load("key")?.payload == payload(after, 2))
    #expect(try cache.exists("ke/key") == (after > 8192))
    #expect(try store.remove("key") == .done)
    #expect(try store.load("key") == nil)
    #expect(try store.remove("key") == .notFound)
  }

  /// A directory that begins with packs has no file to look for, until there is one.
  @Test func aFileThatIsReplacedByAPackedRecordIsGone() throws {
    let store = try store()
    try store.store(payload(100), for: "another")
    try store.store(payload(9000), for: "key")
    try store.store(payload(100, 2), for: "key")
    #expect(try !cache.exists("ke/key"))
    #expect(try store.remove("key") == .done)
    #expect(try store.load("key") == nil)
  }

  /// Names of one digest have one tag: the name in the record decides.
  @Test func namesOfOneDigestAreToldApart() throws {
    let (store, keys) = (try store(), [CollidingKeys.first, CollidingKeys.second])
    for (number, key) in keys.enumerated() { try store.store(payload(100, UInt64(number)), for: key) }
    for (number, key) in keys.enumerated() {
      #expect(try store.load(key)?.payload == payload(100, UInt64(number)))
    }
    #expect(try store.remove(keys[0]) == .done)
    #expect(try store.load(keys[0]) == nil)
    #expect(try store.load(keys[1])?.payload == payload(100, 1))
  }

  @Test func aBlobExpires() throws {
    let store = try store()
    try store.store(payload(5), for: "key", ttl: .seconds(10))
    cache.clock.advance(by: 10)
    #expect(try store.load("key") != nil)
    cache.clock.advance(by: 1)
    #expect(try store.load("key") == nil)
    #expect(try !store.contains("key"))
  }

  @Test func aLoadKeepsABlobWithoutTimeToLive() throws {
    let store = try store()
    try store.store(payload(5), for: "key")
    for _ in 0..<3 {
      cache.clock.advance(by: 600)
      #expect(try store.load("key")?.payload == payload(5))
    }
    cache.clock.advance(by: 601)
    #expect(try store.load("key") == nil)
  }

  @Test func aTouchMovesTheTime() throws {
    let store = try store()
    try store.store(payload(5), for: "key")
    cache.clock.advance(by: 100)
    #expect(try store.touch("key") == .done)
    #expect(try store.header(for: "key")?.lastUpdate == cache.clock.now)
    // Also back, for a clock that was put right.
    cache.clock.advance(by: -50)
    #expect(try store.touch("key") == .done)
    #expect(try store.header(for: "key")?.lastUpdate == cache.clock.now)
    #expect(try store.load("key")?.payload == payload(5))
  }

  @Test(arguments: [BlobStore.Durability.none, .automatic, .full])
  func locksAreCounted(durability: BlobStore.Durability) throws {
    let store = try store { $0.durability = durability }
    try store.store(payload(5), for: "key", ttl: .seconds(10))
    #expect(try store.lock("key") == .done)
    #expect(try store.lock("key") == .done)
    cache.clock.advance(by: 100)
    #expect(try store.load("key")?.header.refCount == 2)
    #expect(try store.unlock("key") == .done)
    #expect(try store.load("key")?.header.refCount == 1)
    #expect(try cache.store().header(for: "key")?.refCount == 1)
    #expect(try store.unlock("key") == .done)
    #expect(try store.load("key") == nil)
  }

  @Test func locksAreKept() throws {
    let store = try store()
    try store.store(payload(5), for: "key", locks: .one)
    try store.store(payload(6), for: "key", locks: .keep)
    #expect(try store.header(for: "key")?.refCount == 1)
    try store.store(payload(9000), for: "key", locks: .keep)
    #expect(try store.header(for: "key")?.refCount == 1)
    try store.store(payload(7), for: "key", locks: .keep)
    #expect(try store.header(for: "key")?.refCount == 1)
    #expect(try store.load("key")?.payload == payload(7))
  }

  @Test func extendedDataAreReplaced() throws {
    let store = try store()
    try store.store(payload(5), for: "key")
    #expect(try store.setExtendedData(Data([7]), for: "key") == .done)
    #expect(try store.extendedData(for: "key") == Data([7]))
    #expect(try store.load("key")?.payload == payload(5))
    #expect(try store.setExtendedData(nil, for: "key") == .done)
    #expect(try store.extendedData(for: "key") == nil)
  }

  @Test func aReaderReadsParts() throws {
    let store = try store()
    try store.store(payload(500), for: "key")
    let reader = try #require(try store.openReader(for: "key"))
    #expect(try reader.read(100..<200) == payload(500)[100..<200])
    try store.remove("key")
    #expect(try reader.read(0..<500) == payload(500))
  }

  /// Where there were files before packs, a change of a key without a packed record looks for one.
  @Test(arguments: [Errno.ioError, .tooManySymbolicLinkLevels, .notDirectory])
  func aLookForAFileThatFailsIsAnErrorOrFindsNone(errno: Errno) throws {
    try cache.store().store(payload(10), for: "file")
    let trace = CallTrace()
    let store = try cache.store(files: trace.files) { $0.packing = .upTo(8192) }
    try store.store(payload(100), for: "first")
    trace.onCall { call, path in
      call == .status && path.string.hasSuffix("/key") ? .fail(errno) : nil
    }
    if errno == .ioError {
      #expect(throws: BlobStoreError.self) { try store.store(payload(200), for: "key") }
    } else {
      try store.store(payload(200), for: "key")
    }
    trace.onCall(nil)
    #expect(try store.load("key")?.payload == (errno == .ioError ? nil : payload(200)))
    #expect(try store.remove("key") == (errno == .ioError ? .notFound : .done) && store.load("key") == nil)
  }

  /// The record stays where it is, or is the file: whichever call fails.
  @Test func aFailedMoveToAFileLosesNothing() throws {
    for call in 1... {
      let (cache, plan) = (try Cache(), FaultPlan())
      let store = try cache.store(files: plan.files()) { $0.packing = .upTo(8192) }
      try store.store(payload(100), for: "key", ttl: .seconds(100), locks: .one)
      plan.arm(FaultPlan.Fault(.ioError, call: call))
      do {
        try store.withExclusiveAccess(to: "key") { _ in }
      } catch {
        #expect((error as? BlobStoreError)?.path != nil && !plan.failed.isEmpty, "call \(call)")
      }
      plan.disarm()
      for each in [store, try cache.store()] {
        #expect(try each.load("key")?.payload == payload(100), "call \(call)")
        #expect(try each.header(for: "key")?.refCount == 1)
      }
      #expect(try store.remove("key") == .done && store.load("key") == nil, "call \(call)")
      #expect(try store.usage().records == 0)
      guard !plan.failed.isEmpty else { return #expect(call > 5) }
    }
  }

  @Test func exclusiveAccessGivesAFile() throws {
    let store = try store()
    try store.store(payload(50), for: "key", locks: .one)
    let bytes = try store.withExclusiveAccess(to: "key") { path in try BlobStoreTests.bytes(ofFile: path.string) }
    #expect(Data(bytes.dropFirst(64)) == payload(50))
    #expect(try store.load("key")?.payload == payload(50))
    #expect(try store.header(for: "key")?.refCount == 1)
  }

  @Test func manyBlobsAreStoredAndRemoved() throws {
    let store = try store()
    for number in 0..<3000 { try store.store(payload(number % 700, UInt64(number)), for: BlobKey("key \(number)")) }
    for number in stride(from: 0, to: 3000, by: 3) { #expect(try store.remove(BlobKey("key \(number)")) == .done) }
    let other = try cache.store()
    for number in 0..<3000 {
      let expected = number % 3 == 0 ? nil : payload(number % 700, UInt64(number))
      #expect(try other.load(BlobKey("key \(number)"))?.payload == expected)
    }
  }

  /// The index says nothing that the packs do not.
  @Test(arguments: ["index", "control file"])
  func whatIsLostIsMadeAnew(lost: String) throws {
    do {
      let store = try store()
      for number in 0..<300 { try store.store(payload(number, UInt64(number)), for: BlobKey("key \(number)")) }
      for number in stride(from: 0, to: 300, by: 2) { try store.store(payload(9), for: BlobKey("key \(number)")) }
      for number in stride(from: 0, to: 300, by: 3) { try store.remove(BlobKey("key \(number)")) }
    }
    try FileManager.default.removeItem(atPath: cache.path(lost == "index" ? ".packs/index" : ".blobcache"))
    let store = try store()
    try store.store(payload(1), for: "another")
    for number in 0..<300 {
      let expected = number % 3 == 0 ? nil : number % 2 == 0 ? payload(9) : payload(number, UInt64(number))
      #expect(try store.load(BlobKey("key \(number)"))?.payload == expected, "\(number)")
    }
  }

  /// A stream is packed once it has ended and stayed small.
  @Test(arguments: [(10, true), (8000, true), (8200, false), (300_000, false)])
  func aStreamThatStaysSmallIsPacked(byteCount: Int, isPacked: Bool) throws {
    let store = try store()
    var writer = try store.openWriter(for: "key", ttl: .seconds(50), locks: .one)
    try writer.append(payload(byteCount).prefix(7))
    try writer.append(payload(byteCount).dropFirst(7))
    try writer.commit()
    #expect(try store.load("key")?.payload == payload(byteCount))
    #expect(try store.header(for: "key")?.refCount == 1)
    #expect(try cache.exists("ke/key") != isPacked)
    #expect(try !cache.files().contains { $0.contains(".tmp") })
  }

  @Test func aReaderTellsExpiryAndDamage() throws {
    let store = try store()
    try store.store(payload(500), for: "old", ttl: .seconds(10))
    cache.clock.advance(by: 11)
    #expect(try store.openReader(for: "old") == nil)
    try store.store(payload(500), for: "sound", extendedData: payload(20))
    let address = try #require(try store.records(prefix: "sound").first { _ in true }?.packed)
    let start = PackLayout.fileOffset(ofChunk: address.chunk) + address.offset
    // The last byte of the extension, then one of the header.
    for offset in [start + 40 + 5 + 500 + 20 + 16 - 1, start + 20] {
      try flipBit(of: ".packs/p-0", at: offset)
      expect(.damaged) { _ = try store.openReader(for: "sound") }
      let entry = try store.records(prefix: "").first { $0.key != "old" }
      #expect(entry?.state == .damaged)
    }
  }

  /// In place: the file is mapped.
  private func flipBit(of file: String, at offset: Int) throws {
    let byte = try cache.bytes(file)[offset] ^ 1
    let handle = try FileHandle(forUpdating: URL(filePath: cache.path(file)))
    try handle.seek(toOffset: UInt64(offset))
    try handle.write(contentsOf: [byte])
    try handle.close()
  }

  @Test func aRemovalWhoseConditionDoesNotHoldRemovesNothing() throws {
    let store = try store()
    try store.store(payload(5), for: "key")
    #expect(try store.remove("key", if: StoreCondition(onRecord: { $0 == nil })) == nil)
    #expect(try store.load("key")?.payload == payload(5))
    #expect(try store.remove("key", if: StoreCondition(onRecord: { $0 != nil })) == .done)
  }

  @Test func removalsAndMovesThatLast() throws {
    let store = try store { $0.durability = .full }
    try store.store(payload(9000), for: "key")
    try store.store(payload(5), for: "key")
    #expect(try store.remove("key") == .done)
    #expect(try store.load("key") == nil)
    try store.store(payload(5), for: "key")
    try store.withExclusiveAccess(to: "key") { _ in }
    #expect(try cache.exists("ke/key"))
    #expect(try store.load("key")?.payload == payload(5))
  }

  /// A look that never waits notes the use at once: there is nothing to write.
  @Test func aLookThatNeverWaitsNotesTheUse() throws {
    guard SystemCall.hasCachedLooks else { return }
    let store = try store()
    try store.store(payload(5), for: "key")
    _ = try store.load("key")
    cache.clock.advance(by: 100)
    var receipt = LoadReceipt()
    let path = try store.path(of: "key", for: "load")
    guard case .known(let blob) = store.loadIfCached("key", at: path, touching: true, &receipt) else {
      Issue.record("it would wait")
      return
    }
    #expect(blob?.payload == payload(5))
    #expect(receipt.owedTouch == nil)
    guard case .known(let header?) = store.headerIfCached(for: "key") else {
      Issue.record("the header would wait")
      return
    }
    #expect(header.payloadSize == 5)
    #expect(try store.header(for: "key")?.lastUpdate == cache.clock.now)
  }

  @Test func aStoreThatHasTheDirectoryForItselfPacksToo() throws {
    let store = try store { $0.access.sharing = .exclusive }
    try store.store(payload(5), for: "key")
    #expect(try store.lock("key") == .done)
    #expect(try store.load("key")?.payload == payload(5))
    #expect(try !cache.exists("ke/key"))
  }

  @Test func aPackedRecordThatIsBusyIsToldByAWipe() throws {
    let store = try store { $0.access.lockTimeout = .zero }
    try store.store(payload(5), for: "key")
    let locks = try HeldLocks(in: cache)
    #expect(try locks.take(BlobKey("key").stripe))
    expect(.busy) { try store.removeAll(.all) }
    try locks.giveBack(BlobKey("key").stripe)
    try store.removeAll(.all)
    #expect(try store.load("key") == nil)
  }

  @Test func aPackThatCannotBeReadIsAnErrorOfTheStore() throws {
    try store().store(payload(5), for: "key")
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    trace.onCall { call, path in call == .read && path.string.hasSuffix("p-0") ? .fail(.ioError) : nil }
    expect(.fileSystem) { try store.store(payload(9000), for: "key") }
    expect(.fileSystem) { _ = try store.load("key") }
    trace.onCall(nil)
    #expect(try store.load("key")?.payload == payload(5))
  }

  /// 2^40 seconds are the most that a packed header has room for.
  /// A collection removes a subdirectory without files, and the next file makes it again.
  @Test(arguments: [false, true])
  func aFileInASubdirectoryThatWasMadeAgainGoes(isReplaced: Bool) throws {
    let (store, other) = try (store(), store())
    let large = Data(repeating: 1, count: 20_000)
    try store.store(large, for: "key")
    let file = try store.filePath(for: "key")
    let subdirectory = file.removingLastComponent()
    if isReplaced {
      try other.remove("key")
      try #require(rmdir(subdirectory.string) == 0)
      try other.store(large, for: "key")
      try store.store(Data([2]), for: "key")
    } else {
      try store.store(Data([2]), for: "key")
      try #require(rmdir(subdirectory.string) == 0)
      // A program that knows no packs puts it there.
      try #require(mkdir(subdirectory.string, 0o700) == 0)
      try large.write(to: URL(filePath: file.string))
    }
    #expect(try store.load("key")?.payload == Data([2]))
    try store.remove("key")
    #expect(try store.load("key") == nil)
    #expect(!FileManager.default.fileExists(atPath: file.string))
  }

  @Test func aRecordThatFitsNoPackAnyMoreBecomesAFile() throws {
    let store = try store()
    try store.store(payload(5), for: "key", ttl: .never)
    cache.clock.advance(by: 1 << 41)
    #expect(try store.renew("key") == .done)
    #expect(try cache.exists("ke/key"))
    #expect(try store.header(for: "key")?.lastUpdate == cache.clock.now)
    #expect(try store.load("key")?.payload == payload(5))
  }

  @Test func anExtensionThatFitsNoPackMakesAFile() throws {
    let store = try cache.store { $0.packing = .upTo(BlobStore.Packing.largestBound) }
    try store.store(payload(32_000), for: "key")
    #expect(try !cache.exists("ke/key"))
    #expect(try store.setExtendedData(payload(4000), for: "key") == .done)
    #expect(try cache.exists("ke/key"))
    #expect(try store.extendedData(for: "key") == payload(4000))
    #expect(try store.load("key")?.payload == payload(32_000))
  }
}
