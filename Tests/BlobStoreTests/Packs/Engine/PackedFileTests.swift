import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Records that move from packs to files, or from files to packs.
@Suite struct PackedFileTests: PackedSuite {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// A file occupies the path of the subdirectory of the key's file.
  @Test func aFileInThePlaceOfASubdirectoryIsNoRecord() throws {
    let store = try store()
    // From here on, the keys' stripes may have files.
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

  /// A directory that starts with packs requires no file lookup until a file exists.
  @Test func aFileThatIsReplacedByAPackedRecordIsGone() throws {
    let store = try store()
    try store.store(payload(100), for: "another")
    try store.store(payload(9000), for: "key")
    try store.store(payload(100, 2), for: "key")
    #expect(try !cache.exists("ke/key"))
    #expect(try store.remove("key") == .done)
    #expect(try store.load("key") == nil)
  }

  /// In a directory with files older than its packs, a change of a key without a packed record looks up a file.
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

  /// The record stays packed or becomes the file, whichever call fails.
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

  /// The file has its name already, so the counters include it, even if the sync of the name fails.
  @Test func aFileWhoseNameIsNotSyncedCounts() throws {
    let trace = CallTrace()
    let store = try store(files: trace.files) { $0.durability = .full }
    try store.store(payload(100), for: "key", locks: .one)
    try store.collect()
    let (hasFailed, root) = (CallCount(), cache.root)
    trace.onCall { call, path in
      if call == .sync, path == root { hasFailed.add(1) }
      return hasFailed.value > 0 ? .fail(.ioError) : nil
    }
    expect(.fileSystem) { try store.store(payload(9000), for: "key", locks: .keep) }
    trace.onCall(nil)
    #expect(hasFailed.value > 0)
    #expect(try store.load("key")?.payload == payload(9000))
    let (estimate, usage) = (try store.usageEstimate(), try store.usage())
    #expect(estimate?.bytes == usage.bytes && estimate?.lockedBytes == usage.bytes)
  }

  @Test func exclusiveAccessGivesAFile() throws {
    let store = try store()
    try store.store(payload(50), for: "key", locks: .one)
    let bytes = try store.withExclusiveAccess(to: "key") { path in try BlobStoreTests.bytes(ofFile: path.string) }
    #expect(Data(bytes.dropFirst(64)) == payload(50))
    #expect(try store.load("key")?.payload == payload(50))
    #expect(try store.header(for: "key")?.refCount == 1)
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

  /// A collection removes a subdirectory without files, and the next file creates it again.
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
      // A program without support for packs creates the file.
      try #require(mkdir(subdirectory.string, 0o700) == 0)
      try large.write(to: URL(filePath: file.string))
    }
    #expect(try store.load("key")?.payload == Data([2]))
    try store.remove("key")
    #expect(try store.load("key") == nil)
    #expect(!FileManager.default.fileExists(atPath: file.string))
  }

  /// A packed header has room for at most 2^40 seconds.
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
