import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, I2b: a process without write access to the control file finds packed records.
///
/// Its mappings are read-only, so a write would crash these tests.
@Suite struct ReadOnlyPackTests: PackedSuite {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  private func readOnlyStore(_ refusal: Errno = .readOnlyFileSystem) throws -> BlobStore {
    refuseWriting(refusal)
    return try store(files: trace.files) { $0.leastPackIndexEntryCount = 1 }
  }

  /// Makes all opens of the control file fail except the second, with which the first lookup opens it read-only.
  private func refuseWriting(_ refusal: Errno) {
    let opens = CallCount()
    trace.onCall { call, path in
      guard call == .openBeneath, path.lastComponent?.string == ".blobcache" else { return nil }
      opens.add(1)
      return opens.value == 2 ? nil : .fail(refusal)
    }
  }

  private func writer() throws -> BlobStore { try store { $0.leastPackIndexEntryCount = 1 } }

  @Test(arguments: [Errno.readOnlyFileSystem, .permissionDenied]) func itFindsPackedRecords(refusal: Errno) throws {
    let writer = try writer()
    for number in 0..<20 { try writer.store(payload(100, UInt64(number)), for: BlobKey("packed \(number)")) }
    try writer.store(payload(9000), for: "file")
    try writer.store(payload(10), for: "locked", locks: .one)
    let update = try writer.header(for: "packed 7")?.lastUpdate
    cache.clock.advance(by: 100)
    let store = try readOnlyStore(refusal)
    for number in 0..<20 {
      #expect(try store.load(BlobKey("packed \(number)"))?.payload == payload(100, UInt64(number)))
    }
    #expect(try store.load("packed 7", touching: false)?.payload == payload(100, 7))
    #expect(try store.load("file", touching: false)?.payload == payload(9000))
    #expect(try store.load("absent") == nil)
    #expect(try store.contains("packed 7"))
    #expect(try store.header(for: "locked")?.refCount == 1)
    #expect(try Set(store.records().map(\.key)) == Set(writer.records().map(\.key)))
    #expect(try store.records(prefix: "packed 1").reduce(0) { count, _ in count + 1 } == 11)
    #expect(try store.openReader(for: "packed 7")?.read(0..<100) == payload(100, 7))
    #expect(try store.inspectRecord(of: "packed 7") != nil)
    #expect(try store.usage().records == 22)
    #expect(try store.packUsage().records == 21)
    #expect(try store.verify().soundRecords == 22)
    // The process could not record its uses.
    #expect(try writer.header(for: "packed 7")?.lastUpdate == update)
  }

  /// Others replace and remove records, move them to files, and enlarge the index of the packs.
  @Test func itSeesWhatOthersChange() throws {
    let (writer, store) = try (writer(), readOnlyStore())
    try writer.store(payload(100), for: "key")
    try writer.store(payload(100), for: "removed")
    try writer.store(payload(100), for: "moved")
    for key: BlobKey in ["key", "removed", "moved"] { #expect(try store.load(key)?.payload == payload(100)) }
    try writer.store(payload(50, 2), for: "key")
    try writer.remove("removed")
    try writer.store(payload(9000, 3), for: "moved")
    #expect(try store.load("key")?.payload == payload(50, 2))
    #expect(try store.load("removed") == nil)
    #expect(try store.load("moved")?.payload == payload(9000, 3))
    for number in 0..<500 {
      let key = BlobKey("key \(number)")
      try writer.store(payload(20, UInt64(number)), for: key)
      #expect(try store.load(key)?.payload == payload(20, UInt64(number)))
    }
    try writer.removeAll(.all)
    #expect(try store.load("key") == nil)
    #expect(try store.records().first { _ in true } == nil)
  }

  /// The process creates no index: after a boot, a process with write access must come first.
  @Test func itFindsNothingUntilThereIsAnIndex() throws {
    do { try writer().store(payload(100), for: "key") }
    try FileManager.default.removeItem(atPath: cache.path(".packs/index"))
    let store = try readOnlyStore()
    #expect(try store.load("key") == nil)
    #expect(try writer().load("key")?.payload == payload(100))
    #expect(try store.load("key")?.payload == payload(100))
  }

  /// A load of a file looks up the packs only once.
  @Test func aDirectoryWithoutPacksIsLookedAtOnce() throws {
    do { try store { $0.packing = .off }.store(payload(100), for: "key") }
    let store = try readOnlyStore()
    func looks() throws -> Int {
      _ = trace.take()
      #expect(try store.load("key", touching: false)?.payload == payload(100))
      return trace.take().count { $0.path.hasSuffix("/.packs") }
    }
    #expect(try looks() == 1)
    #expect(try looks() == 0)
    do { try writer().store(payload(100, 2), for: "packed") }
    #expect(try store.load("packed")?.payload == payload(100, 2))
  }

  @Test func aControlFileThatWasDeletedIsNoticedWithinASecond() throws {
    let store = try readOnlyStore()
    do { try writer().store(payload(100), for: "key") }
    #expect(try store.load("key")?.payload == payload(100))
    try FileManager.default.removeItem(atPath: cache.path(".blobcache"))
    do { try writer().store(payload(100, 2), for: "key") }
    refuseWriting(.readOnlyFileSystem)
    trace.wait(milliseconds: 1000)
    #expect(try store.load("key")?.payload == payload(100, 2))
  }

  @Test func itChangesNothing() throws {
    do { try writer().store(payload(100), for: "key") }
    let store = try readOnlyStore()
    #expect(try store.load("key")?.payload == payload(100))
    #expect(expect(.fileSystem) { try store.store(payload(50), for: "key") }?.errno == .readOnlyFileSystem)
    #expect(try store.load("key")?.payload == payload(100))
  }
}
