import BlobRecord
import BlobStore
import Foundation
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, Y1 to Y6: blobs that are stored in pieces.
@Suite struct WriterTests {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  private static let sizes = [0, 1, 63, 64, 65, 4095, 4096, 4097, (1 << 20) - 1, 1 << 20, (1 << 20) + 1]

  /// Appends a payload in pieces of the given size.
  private func append(_ bytes: Data, to writer: inout BlobWriter, by pieceSize: Int) throws {
    for start in stride(from: 0, to: bytes.count, by: pieceSize) {
      try writer.append(Data(bytes[start..<min(start + pieceSize, bytes.count)]))
    }
  }

  /// Y1: the record is identical to the one of a store.
  @Test(arguments: sizes, [true, false]) func writesTheRecordOfAStore(byteCount: Int, isExpected: Bool) throws {
    let store = try cache.store()
    try store.store(payload(byteCount), for: "key", ttl: .seconds(77), locks: .one)
    let stored = try cache.bytes("ke/key")
    try store.store(payload(3), for: "key")
    for pieceSize in [byteCount, 1 + byteCount / 3] {
      var writer = try store.openWriter(
        for: "key", ttl: .seconds(77), locks: .one, expectedSize: isExpected ? Int64(byteCount) : nil)
      try append(payload(byteCount), to: &writer, by: max(pieceSize, 1))
      let written = writer.byteCount
      #expect(written == Int64(byteCount))
      let header = try writer.commit()
      #expect(try header == cache.header("ke/key"))
      #expect(try cache.bytes("ke/key") == stored)
      #expect(try cache.files() == ["ke/key"])
      _ = try store.remove("key")
    }
  }

  /// S9.
  @Test func referenceFormatHasNoChecksum() throws {
    let store = try cache.store { $0.format = .reference }
    var writer = try store.openWriter(for: "key")
    try writer.append(payload(10))
    let header = try writer.commit()
    #expect(header == RecordHeader(updateTime: UInt64(cache.now), payloadSize: 10))
    #expect(try store.load("key")?.payload == payload(10))
  }

  /// Y1: nothing is visible before the commit, and the key can be changed in the meantime.
  @Test func nothingIsSeenBeforeTheCommit() throws {
    let store = try cache.store { $0.access.lockTimeout = .zero }
    var writer = try store.openWriter(for: "key", ttl: .seconds(50))
    try writer.append(payload(1000))
    #expect(try store.load("key") == nil)
    #expect(try store.usage().temporaryBytes == 1064)
    try store.store(payload(5), for: "key", locks: .one)
    #expect(try store.load("key")?.payload == payload(5))
    // C4: the writer of the temporary file is alive.
    #expect(try store.collect().temporary == 0)
    cache.clock.advance(by: 10)
    // S1, S2, S7a: the lifetime begins with the commit, and locks of the replaced record are not kept.
    let header = try writer.commit()
    #expect(header.updateTime == UInt64(cache.now) && header.refCount == 0)
    #expect(try store.load("key")?.payload == payload(1000))
    #expect(try cache.files() == ["ke/key"])
  }

  /// S3, S4: locks are kept from the record that exists at the time of the commit.
  @Test func locksAreKeptAtTheCommit() throws {
    let store = try cache.store()
    var writer = try store.openWriter(for: "key", locks: .keep)
    try writer.append(payload(10))
    try store.store(payload(5), for: "key")
    for _ in 0..<3 { try store.lock("key") }
    let header = try writer.commit()
    #expect(header.refCount == 3)
    #expect(try cache.header("ke/key").refCount == 3)
  }

  /// Y1: of two writers of a key, the last one to commit wins.
  @Test func theLastCommitWins() throws {
    let store = try cache.store()
    var first = try store.openWriter(for: "key")
    var second = try store.openWriter(for: "key")
    try first.append(payload(10, 1))
    try second.append(payload(20, 2))
    try second.commit()
    try first.commit()
    #expect(try store.load("key")?.payload == payload(10, 1))
    #expect(try store.traffic().stores == 2)
  }

  /// Y2: a dropped, discarded or failed writer leaves nothing.
  @Test(arguments: [true, false]) func whatIsNotCommittedLeavesNothing(isDropped: Bool) throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    do {
      var writer = try store.openWriter(for: "key")
      try writer.append(payload(10))
      #expect(try cache.files().count == 2)
      if !isDropped { writer.discard() }
    }
    #expect(try cache.files() == ["ke/key"])
    #expect(try store.load("key")?.payload == payload(5))
  }

  /// Y3: a blob with fewer bytes than expected is never stored.
  @Test(arguments: [0, 99] as [Int64]) func tooFewBytesAreNotStored(missing: Int64) throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    var writer = try store.openWriter(for: "key", expectedSize: missing + 1 + 10)
    try writer.append(payload(10))
    do {
      try writer.commit()
      Issue.record("a payload that lacks bytes was stored")
    } catch {
      #expect(error.code == .sizeMismatch && error.key == "key" && error.operation == "store")
    }
    #expect(try store.load("key")?.payload == payload(5))
    #expect(try cache.files() == ["ke/key"])
  }

  /// Y3: a blob with more bytes than expected is never stored.
  @Test func tooManyBytesAreNotStored() throws {
    let store = try cache.store()
    var writer = try store.openWriter(for: "key", expectedSize: 10)
    try writer.append(payload(10))
    expect(.sizeMismatch) { try writer.append(payload(1)) }
    // Later calls write nothing.
    expect(.sizeMismatch) { try writer.append(Data()) }
    let written = writer.byteCount
    #expect(written == 10)
    do {
      try writer.commit()
      Issue.record("a payload with too many bytes was stored")
    } catch {
      #expect(error.code == .sizeMismatch)
    }
    #expect(try cache.files().isEmpty)
  }

  /// Y3, S6: a size that can never be stored is refused before a file is created.
  @Test(
    arguments: [
      (-1, .sizeMismatch), (.min, .sizeMismatch), (101, .payloadTooLarge), (.max - 63, .payloadTooLarge),
      (.max, .payloadTooLarge),
    ] as [(Int64, BlobStoreError.Code)], [100, Int64.max])
  func impossibleSizesAreRefused(size: (Int64, BlobStoreError.Code), maximum: Int64) throws {
    let store = try cache.store { $0.limits.payload = maximum }
    guard size.0 != 101 || maximum == 100 else { return }
    let error = expect(size.1) { _ = try store.openWriter(for: "key", expectedSize: size.0) }
    #expect(error?.key == "key" && error?.operation == "store")
    #expect(try !cache.exists(""))
    expect(.invalidKey) { _ = try store.openWriter(for: "") }
    expect(.invalidTimeToLive) { _ = try store.openWriter(for: "key", ttl: .zero) }
    #expect(try !cache.exists(""))
  }

  /// S6: a payload exceeds the limit as it grows.
  @Test func growthEndsAtTheLimits() throws {
    let store = try cache.store { $0.limits.size = 1064 }
    var writer = try store.openWriter(for: "key")
    try writer.append(payload(1000))
    expect(.payloadTooLarge) { try writer.append(payload(1)) }
    expect(.payloadTooLarge) { _ = try store.openWriter(for: "key", expectedSize: 1001) }
    writer.discard()
    #expect(try cache.files().isEmpty)
  }

  /// Y2, S5: one call after the other fails. The old record stays unchanged, and no file remains.
  @Test(arguments: [BlobStore.Durability.none, .full]) func aFailingCallLeavesTheOldRecord(
    durability: BlobStore.Durability
  ) throws {
    let store = try cache.store(files: trace.files) { $0.durability = durability }
    try store.store(payload(10), for: "key", locks: .one)
    var failed: Set<SystemCall> = []
    for call in SystemCall.allCases where call != .close && call != .unlink {
      trace.onCall { made, path in made == call && !path.string.hasSuffix("/ke") ? .fail(.noSpace) : nil }
      defer { trace.onCall(nil) }
      let before = try cache.snapshot()
      do throws(BlobStoreError) {
        var writer = try store.openWriter(for: "key", expectedSize: 20)
        try writer.append(payload(20))
        try writer.commit()
      } catch {
        failed.insert(call)
        #expect(error.code == .fileSystem && error.errno == .noSpace && error.key == "key", "\(call): \(error)")
        #expect(error.path != nil && error.systemCall != nil)
        trace.onCall(nil)
        #expect(try cache.snapshot() == before, "\(call)")
      }
      trace.onCall(nil)
      try store.store(payload(10), for: "key", locks: .one)
    }
    let expected: Set<SystemCall> = [.open, .lock, .status, .reserve, .write, .openBeneath, .rename, .renameNoReplace]
    #expect(failed.isSuperset(of: durability == .full ? expected.union([.sync]) : expected), "\(failed)")
  }

  /// Y3: file systems that cannot reserve blocks are supported.
  @Test(arguments: [Errno.notSupported, .invalidArgument, .noFunction]) func storesWithoutReservation(
    errno: Errno
  ) throws {
    let store = try cache.store(files: trace.files)
    trace.onCall { call, _ in call == .reserve ? .fail(errno) : nil }
    var writer = try store.openWriter(for: "key", expectedSize: 10)
    #expect(trace.count(.reserve) == 1)
    try writer.append(payload(10))
    try writer.commit()
    #expect(try store.load("key")?.payload == payload(10))
  }

  /// Y3, M6: space is made when the file is created, when its blocks are reserved and when it grows.
  @Test(arguments: [SystemCall.open, .reserve, .write]) func roomIsMadeOnAFullVolume(call: SystemCall) throws {
    let store = try cache.store(files: trace.files) {
      $0.limits.collectsOnStore = true
      $0.limits.size = 1 << 30
      $0.recycling = .off
    }
    for key in 0..<5 {
      try store.store(payload(36), for: "key \(key)", ttl: .seconds(1000))
      cache.clock.advance(by: 1)
    }
    store.waitForCollection()
    let cache = cache
    trace.onCall { made, path in
      guard made == call, path.string.contains("/ke/.tmp-"), cache.count() > 4 else { return nil }
      return .fail(.noSpace)
    }
    var writer = try store.openWriter(for: "key", expectedSize: 10)
    try writer.append(payload(10))
    try writer.commit()
    #expect(try store.load("key")?.payload == payload(10))
    #expect(try !store.contains("key 0") && store.contains("key 4"))
  }

  /// P6: a subdirectory that a collection removes before the file is created is created again.
  @Test func vanishedSubdirectoryIsMadeAgain() throws {
    let store = try cache.store(files: trace.files)
    let (cache, trace) = (cache, trace)
    trace.onCall { call, path in
      guard call == .open, path.string.contains("/ke/") else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) { try FileManager.default.removeItem(atPath: cache.path("ke")) }
      return nil
    }
    var writer = try store.openWriter(for: "key")
    try writer.append(payload(10))
    try writer.commit()
    #expect(try store.load("key")?.payload == payload(10))
  }

  /// P7: a root that was replaced in the meantime gets no blob.
  @Test func replacedRootGetsNoBlob() throws {
    let store = try cache.store()
    var writer = try store.openWriter(for: "key")
    try writer.append(payload(10))
    try check(rename(cache.path(""), cache.outside.path.string + "/moved"), "rename")
    try cache.makeDirectory("")
    // Long enough for the next check of the root.
    Thread.sleep(forTimeInterval: 1.1)
    do {
      try writer.commit()
      Issue.record("a blob was put into a directory that is elsewhere")
    } catch {
      #expect(error.code == .fileSystem && error.errno == .noSuchFileOrDirectory)
    }
    #expect(try cache.files().isEmpty)
  }

  /// Y6: a root that two threads open concurrently is one directory, also if its permissions change.
  @Test(arguments: [true, false]) func theSameRootTakesTheBlob(isOpenedTwice: Bool) throws {
    final class Box: Sendable {
      let writer = Lock<BlobWriter?>(nil)
    }
    try cache.store().store(payload(1), for: "another")
    let (store, box, cache, trace) = (try cache.store(files: trace.files), Box(), cache, trace)
    @Sendable func open() {
      do {
        var writer: BlobWriter? = try store.openWriter(for: "key")
        box.writer.withLock { $0 = writer.take() }
      } catch {
        Issue.record("\(error)")
      }
    }
    if isOpenedTwice {
      trace.onCall { call, path in
        guard call == .openDirectory, path == cache.root else { return nil }
        trace.onCall(nil)
        open()
        return nil
      }
      #expect(try !store.contains("absent"))
    } else {
      open()
      try check(chmod(cache.path(""), 0o750), "chmod")
      // Long enough for the next check of the root.
      trace.wait(milliseconds: 1100)
    }
    guard var writer = box.writer.withLock({ $0.take() }) else {
      Issue.record("there is no writer")
      return
    }
    try writer.append(payload(10))
    try writer.commit()
    #expect(try store.load("key")?.payload == payload(10))
  }

  /// N5c: the record follows the arrangement of the directory, and a new directory records its arrangement.
  @Test(arguments: [RecordArrangement.prefix, .spread, nil]) func liesWhereTheDirectorySays(
    arrangement: RecordArrangement?
  ) throws {
    if let arrangement {
      let another = try cache.store {
        $0.layout.arrangement = arrangement
        $0.access.recordsConfiguration = true
      }
      try another.store(payload(1), for: "another")
    }
    let store = try cache.store { $0.layout.arrangement = nil }
    var writer = try store.openWriter(for: "foobar")
    try writer.append(payload(10))
    try writer.commit()
    let file = arrangement == .prefix ? "fo/foobar" : "v8/foobar"
    #expect(try cache.files().contains(file))
    #expect(try store.load("foobar")?.payload == payload(10))
    let other = try cache.store { $0.layout.arrangement = nil }
    let reader = try #require(try other.openReader(for: "foobar"))
    #expect(try reader.read(0..<10) == payload(10))
    let error = expect(.invalidRange) { _ = try reader.read(0..<11) }
    #expect(error?.path == cache.root.appending(FilePath(file).components))
  }

  /// D: the file is synced before it is published, and its directories afterwards.
  @Test func durableCommitsAreSynced() throws {
    let store = try cache.store(files: trace.files) { $0.durability = .full }
    var writer = try store.openWriter(for: "key")
    try writer.append(payload(10))
    _ = trace.take()
    try writer.commit()
    let synced = trace.take().filter { $0.call == .sync }
    // The file, its directory and the root.
    #expect(synced.count == 3)
  }

  /// A failed sync of the directory after the commit is an error, but the new blob is in place.
  @Test func aSyncThatFailsAfterTheCommitIsReported() throws {
    let store = try cache.store(files: trace.files) { $0.durability = .full }
    var writer = try store.openWriter(for: "key")
    try writer.append(payload(10))
    trace.onCall { call, path in call == .sync && path.string.hasSuffix("/ke") ? .fail(.ioError) : nil }
    do {
      try writer.commit()
      Issue.record("a failed sync was not reported")
    } catch {
      #expect(error.code == .fileSystem && error.errno == .ioError)
    }
    trace.onCall(nil)
    #expect(try store.load("key")?.payload == payload(10))
  }

  /// A writer keeps its store alive.
  @Test func aWriterKeepsItsStore() throws {
    func open() throws -> BlobWriter { try cache.store().openWriter(for: "key") }
    var writer = try open()
    try writer.append(payload(10))
    try writer.commit()
    #expect(try cache.store().load("key")?.payload == payload(10))
  }
}
