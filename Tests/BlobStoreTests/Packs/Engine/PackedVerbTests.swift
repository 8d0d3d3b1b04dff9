import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Operations have the same results for packed records as for files.
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
    // Another process opens the packs.
    #expect(try cache.store().load("key")?.payload == payload(byteCount))
  }

  @Test func aPackedBlobThatIsLargerThanAnotherProgramsMaximumIsAnError() throws {
    try store().store(payload(1000), for: "key")
    let other = try cache.store { $0.limits.payload = 999 }
    expect(.payloadTooLarge) { _ = try other.load("key") }
    #expect(try other.contains("key"))
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

  /// Names with the same digest have the same tag, so the name in the record decides.
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

  /// The index contains only information that the packs contain, too.
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

  @Test func aRemovalWhoseConditionDoesNotHoldRemovesNothing() throws {
    let store = try store()
    try store.store(payload(5), for: "key")
    #expect(try store.remove("key", if: StoreCondition(onRecord: { $0 == nil })) == nil)
    #expect(try store.load("key")?.payload == payload(5))
    #expect(try store.remove("key", if: StoreCondition(onRecord: { $0 != nil })) == .done)
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
}
