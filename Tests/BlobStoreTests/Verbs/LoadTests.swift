import BlobRecord
import BlobStore
import Foundation
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, L.
@Suite struct LoadTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// L1, for each way in which a load reads a file.
  @Test(arguments: [5, 5000, 100_000]) func expiredRecordIsNotFoundAndStays(byteCount: Int) throws {
    let store = try cache.store()
    try store.store(payload(byteCount), for: "key")
    cache.clock.advance(by: 601)
    #expect(try store.load("key") == nil)
    #expect(try cache.files() == ["ke/key"])
  }

  /// L2.
  @Test func hitMovesTheUpdateTimeOfTimeToLiveZero() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    for _ in 0..<5 {
      cache.clock.advance(by: 600)
      #expect(try store.load("key") != nil)
      #expect(try cache.header("ke/key").updateTime == UInt64(cache.now))
    }
    cache.clock.advance(by: 601)
    #expect(try store.load("key") == nil)
  }

  /// L2.
  @Test func hitDoesNotWriteRecordsWithTheirOwnTimeToLive() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key", ttl: .seconds(100))
    let before = try cache.state("ke/key")
    cache.clock.advance(by: 100)
    #expect(try store.load("key") != nil)
    #expect(try cache.state("ke/key") == before)
  }

  /// L2.
  @Test func hitWritesOncePerSecondOfChangeAndNeverBack() throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try store.store(payload(5), for: "key")
    let stored = UInt64(cache.now)
    func writes(of loads: Int) throws -> Int {
      _ = trace.take()
      for _ in 0..<loads { #expect(try store.load("key") != nil) }
      return trace.count(.write)
    }
    #expect(try writes(of: 3) == 0)
    cache.clock.advance(by: 1)
    #expect(try writes(of: 3) == 1)
    #expect(try cache.header("ke/key").updateTime == stored + 1)
    cache.clock.advance(by: -100)
    #expect(try writes(of: 3) == 0)
    #expect(try cache.header("ke/key").updateTime == stored + 1)
  }

  /// L3: the header is written in place; the payload and the inode of the file are unchanged.
  @Test func touchOfALoadWritesTheHeaderInPlace() throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try store.store(payload(5), for: "key")
    let before = try #require(try cache.state("ke/key"))
    cache.clock.advance(by: 9)
    _ = trace.take()
    #expect(try store.load("key") != nil)
    #expect(trace.count(.rename) + trace.count(.renameNoReplace) == 0)
    let after = try #require(try cache.state("ke/key"))
    #expect(after.inode == before.inode)
    #expect(after.content?.dropFirst(64) == before.content?.dropFirst(64))
    #expect(after.content != before.content)
  }

  /// L3: another thread is in the middle of a change of the key.
  @Test(.timeLimit(.minutes(30))) func loadDoesNotWaitForAChange() throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try store.store(payload(5), for: "key")
    let stored = UInt64(cache.now)
    cache.clock.advance(by: 9)
    let (hasArrived, mayProceed, hasFinished) = (Gate(), Gate(), Gate())
    trace.onCall { call, _ in
      // The replaced file is moved to the recycling bin or unlinked.
      guard call == .unlink || call == .rename else { return nil }
      hasArrived.open()
      mayProceed.wait()
      return nil
    }
    let remover = Thread {
      #expect(throws: Never.self) { try store.remove("key") }
      hasFinished.open()
    }
    remover.start()
    #expect(hasArrived.wait())
    #expect(try store.load("key")?.payload == payload(5))
    #expect(try cache.header("ke/key").updateTime == stored)
    mayProceed.open()
    #expect(hasFinished.wait())
    #expect(try store.load("key") == nil)
  }

  /// L3.
  @Test(arguments: [Errno.noSpace, .readOnlyFileSystem, .ioError]) func failedTouchDoesNotFailTheLoad(
    errno: Errno
  )
    throws
  {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try store.store(payload(5), for: "key")
    cache.clock.advance(by: 9)
    trace.onCall { call, _ in call == .write ? .fail(errno) : nil }
    #expect(try store.load("key")?.payload == payload(5))
    #expect(trace.count(.write) > 1)
  }

  /// L4.
  @Test func readingWithoutTouchingChangesNothing() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    try store.store(payload(5), for: "expired", ttl: .seconds(1))
    try cache.write([1, 2, 3], to: "da/damaged")
    cache.clock.advance(by: 9)
    let before = try cache.snapshot()
    #expect(try store.load("key", touching: false) != nil)
    #expect(try store.load(prefix: "k", touching: false) { $0.first } != nil)
    #expect(try store.header(for: "key") != nil)
    #expect(try store.contains("key"))
    #expect(try store.records().map(\.file).sorted() == ["da/damaged", "ex/expired", "ke/key"])
    #expect(try store.usage().records == 2)
    #expect(try store.verify().soundRecords == 2)
    #expect(try cache.snapshot() == before)
  }

  /// L5: the kinds of damage and their errors.
  @Test(arguments: Damage.allCases) func damagedRecordIsATypedError(damage: Damage) throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key", ttl: .seconds(100))
    try damage.inflict(on: "ke/key", in: cache)
    let before = try cache.snapshot()
    let error = expect(.damaged) { _ = try store.load("key") }
    #expect(error?.recordError?.name == damage.rawValue)
    #expect(error?.path?.string == cache.path("ke/key"))
    #expect(error?.key == "key")
    #expect(try cache.snapshot() == before)
  }

  /// L5: expiry is checked after the header and before the payload.
  @Test(arguments: Damage.allCases) func expiredDamagedRecordIsNotFoundIfItsHeaderIsSound(damage: Damage) throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key", ttl: .seconds(100))
    try damage.inflict(on: "ke/key", in: cache)
    cache.clock.advance(by: 101)
    if damage.leavesHeaderSound {
      #expect(try store.load("key") == nil)
    } else {
      expect(.damaged) { _ = try store.load("key") }
    }
  }

  /// L6.
  @Test func payloadAboveTheMaximumIsAnErrorUnlessTheFileIsDamagedOrExpired() throws {
    try cache.store().store(payload(100), for: "key", ttl: .seconds(50))
    let store = try cache.store { $0.limits.payload = 99 }
    let error = expect(.payloadTooLarge) { _ = try store.load("key") }
    #expect(error?.path?.string == cache.path("ke/key"))
    try cache.write(try cache.bytes("ke/key") + [0], to: "ke/key")
    let damage = expect(.damaged) { _ = try store.load("key") }
    #expect(damage?.recordError == .wrongPayloadSize(stated: 100, found: 101))
    cache.clock.advance(by: 51)
    #expect(try store.load("key") == nil)
  }

  /// L6: a header with an excessive payload size.
  @Test(arguments: [1 << 40, UInt64(Int64.max), .max] as [UInt64]) func hugeStatedSizeAllocatesNothing(
    stated: UInt64
  )
    throws
  {
    let store = try cache.store()
    let header = RecordHeader(updateTime: UInt64(cache.now), payloadSize: stated)
    try cache.write(header.encoded + [1, 2, 3], to: "ke/key")
    let error = expect(.damaged) { _ = try store.load("key") }
    #expect(error?.recordError == .wrongPayloadSize(stated: stated, found: 3))
  }

  /// L7.
  @Test(
    arguments: [
      ("", ["a", "ab", "abc", "abd", "b", "é1", "é2", "😀x"]), ("a", ["a", "ab", "abc", "abd"]),
      ("ab", ["ab", "abc", "abd"]), ("abc", ["abc"]), ("é", ["é1", "é2"]), ("😀", ["😀x"]),
    ])
  func prefixOffersItsLiveKeys(prefix: String, expected: [String]) throws {
    for separates in [true, false] {
      let cache = try Cache()
      let store = try cache.store { $0.layout.separatesDirectories = separates }
      for key in ["a", "ab", "abc", "abd", "b", "é1", "é2", "😀x"] {
        try store.store(Data(key.utf8), for: BlobKey(key), ttl: .seconds(100))
      }
      try store.store(payload(1), for: "abExpired", ttl: .seconds(1))
      try store.store(payload(1), for: "ab expired but locked", ttl: .seconds(1), locks: .one)
      try cache.write([1], to: separates ? "ab/abDamaged" : "abDamaged")
      cache.clock.advance(by: 2)
      let withLocked = "ab expired but locked".hasPrefix(prefix) ? expected + ["ab expired but locked"] : expected
      var offered: [String] = []
      let blob = try store.load(prefix: prefix) { keys in
        offered = keys.map(\.string)
        return keys.first { $0.string == expected.last }
      }
      #expect(offered.sorted() == withLocked.sorted())
      #expect(blob?.payload == Data(expected.last?.utf8 ?? "".utf8))
    }
  }

  /// L7.
  @Test func chooserMayDeclineAndIsNeverAskedForNothing() throws {
    let store = try cache.store()
    func neverAsked(_ prefix: String) throws -> Blob? {
      try store.load(prefix: prefix) { keys in
        Issue.record("asked with \(keys)")
        return nil
      }
    }
    #expect(try neverAsked("") == nil)
    try store.store(payload(5), for: "key")
    #expect(try store.load(prefix: "ke") { _ in nil } == nil)
    #expect(try neverAsked("x") == nil)
    #expect(try neverAsked("kex") == nil)
    #expect(try neverAsked("keyy") == nil)
    cache.clock.advance(by: 601)
    #expect(try neverAsked("k") == nil)
  }

  /// L7.
  @Test func chosenKeyThatIsGoneIsNotFound() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    let blob = try store.load(prefix: "k") { keys in
      #expect(throws: Never.self) { try store.remove("key") }
      return keys.first
    }
    #expect(blob == nil)
  }

  /// L7, L2.
  @Test func chosenRecordIsTouchedAndNoOther() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key1")
    try store.store(payload(5), for: "key2")
    cache.clock.advance(by: 5)
    #expect(try store.load(prefix: "key") { _ in "key1" } != nil)
    #expect(try cache.header("ke/key1").updateTime == UInt64(cache.now))
    #expect(try cache.header("ke/key2").updateTime == UInt64(cache.now - 5))
  }

  /// P10: large files that are expired or invalid cost neither memory nor time for their payload.
  @Test(arguments: ["expired", "zeros", "other size"]) func largeFilesAreJudgedByTheirHeaders(what: String) throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try store.store(payload(5), for: "key", ttl: .seconds(10))
    switch what {
    case "expired":
      try cache.changeHeader("ke/key") { ($0.payloadSize, $0.payloadChecksum) = (1 << 29, 0) }
      cache.clock.advance(by: 11)
    case "zeros": try cache.write([UInt8](repeating: 0, count: 64), to: "ke/key")
    default: break
    }
    try check(truncate(cache.path("ke/key"), 64 + 1 << 29), "truncate")
    let largest = Lock(0)
    trace.onCall { call, path in
      guard call == .read else { return nil }
      // A payload would be read in pieces of this size.
      largest.withLock { $0 += 1 }
      return .transferAtMost(4096)
    }
    if what == "expired" {
      #expect(try store.load("key") == nil)
    } else {
      expect(.damaged) { _ = try store.load("key") }
    }
    #expect(largest.withLock { $0 } <= 3)
  }

  /// Spec/RecordFormat.md, 4: the payload's checksum is verified before the name, also if the header is read first.
  @Test func largeFilesBreakTheirFirstRule() throws {
    let store = try cache.store()
    try store.store(payload(2 << 20), for: "key")
    try cache.makeDirectory("ot")
    try FileManager.default.copyItem(atPath: cache.path("ke/key"), toPath: cache.path("ot/other"))
    var error = expect(.damaged) { _ = try store.load("other") }
    #expect(error?.recordError?.name == Damage.keyMismatch.rawValue)
    try Damage.payloadChecksumMismatch.inflict(on: "ot/other", in: cache)
    error = expect(.damaged) { _ = try store.load("other") }
    #expect(error?.recordError?.name == Damage.payloadChecksumMismatch.rawValue)
  }

  /// L8.
  @Test func fileThatNobodyMayReadCostsOneCandidate() throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try store.store(payload(5), for: "key1")
    try store.store(payload(6), for: "key2")
    trace.onCall { call, path in
      [.open, .openBeneath].contains(call) && path.string.hasSuffix("key1") ? .fail(.permissionDenied) : nil
    }
    #expect(try store.load(prefix: "key") { $0 == ["key2"] ? "key2" : nil }?.payload == payload(6))
    #expect(try store.records().map(\.state.rawValue).sorted() == ["live", "unreadable"])
    #expect(try store.usage().unreadableFiles == 1)
    #expect(try store.usage().records == 1)
    let error = expect(.fileSystem) { _ = try store.load("key1") }
    #expect(error?.errno == .permissionDenied)
  }

  /// L8: a file that cannot be read is an error, because its record might be a candidate.
  @Test(arguments: [Errno.tooManyOpenFiles, .tooManyOpenFilesInSystem, .noMemory, .ioError, .staleNFSFileHandle])
  func fileThatCannotBeReadIsAnError(errno: Errno) throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try store.store(payload(5), for: "key1")
    try store.store(payload(6), for: "key2")
    trace.onCall { call, path in call == .openBeneath && path.string.hasSuffix("key1") ? .fail(errno) : nil }
    let error = expect(.fileSystem) { _ = try store.load(prefix: "key") { $0.first } }
    #expect(error?.errno == errno)
    #expect(error?.operation == "load")
  }

  /// L8.
  @Test(arguments: ["k", "ke", "key"]) func unlistableSubdirectoryIsAnError(prefix: String) throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try store.store(payload(5), for: "key1")
    trace.onCall { call, path in
      call == .openDirectory && path.string.hasSuffix("/ke") ? .fail(.permissionDenied) : nil
    }
    let error = expect(.fileSystem) { _ = try store.load(prefix: prefix) { $0.first } }
    #expect(error?.errno == .permissionDenied)
    #expect(try store.records(prefix: prefix).map(\.state) == [.unreadable])
    #expect(try store.usage().unreadableFiles == 1)
  }

  /// L9.
  @Test func headerAndContainsDoNotReadThePayload() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    try Damage.payloadChecksumMismatch.inflict(on: "ke/key", in: cache)
    #expect(try store.contains("key"))
    #expect(try store.header(for: "key")?.payloadSize == 5)
    try Damage.wrongPayloadSize.inflict(on: "ke/key", in: cache)
    expect(.damaged) { _ = try store.contains("key") }
    expect(.damaged) { _ = try store.header(for: "key") }
  }

  /// A reader that cannot open the control file can still load.
  @Test func aControlFileThatCannotBeOpenedKeepsNoLoad() throws {
    let writer = try cache.store()
    for size in [5, 6] { try writer.store(payload(size), for: "key", ttl: .seconds(60)) }
    let trace = CallTrace()
    let reader = try cache.store(files: trace.files)
    trace.onCall { _, path in path.lastComponent == ".blobcache" ? .fail(.ioError) : nil }
    #expect(try reader.load("key")?.payload == payload(6))
  }
}
