import BlobRecord
import BlobStore
import Foundation
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, R.
@Suite struct RemoveTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// R1.
  @Test func removesWhateverThereIs() throws {
    let store = try cache.store()
    #expect(try store.remove("key") == .notFound)
    try store.store(payload(5), for: "key", ttl: .seconds(1))
    #expect(try store.remove("kez") == .notFound)
    cache.clock.advance(by: 9)
    #expect(try store.remove("key") == .done)
    #expect(try store.remove("key") == .notFound)
    try store.store(payload(5), for: "key", locks: .one)
    #expect(try store.remove("key") == .done)
    #expect(try cache.files() == [])
  }

  /// R1.
  @Test(arguments: Damage.allCases) func removesDamagedRecords(damage: Damage) throws {
    for durability in BlobStore.Durability.allCases {
      let store = try cache.store { $0.durability = durability }
      try store.store(payload(5), for: "key")
      try damage.inflict(on: "ke/key", in: cache)
      #expect(try store.remove("key") == .done)
      #expect(try cache.files() == [])
    }
  }

  /// R1.
  @Test func removesWhatItCannotRead() throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files) { $0.durability = .automatic }
    try store.store(payload(5), for: "key")
    trace.onCall { call, _ in call == .openBeneath ? .fail(.permissionDenied) : nil }
    #expect(try store.remove("key") == .done)
    #expect(try cache.files() == [])
  }

  /// A removal by prefix ends with an error at the first record that cannot be read.
  @Test func removalByPrefixReportsWhatItCannotRead() throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try store.store(payload(5), for: "key")
    trace.onCall { call, _ in call == .openBeneath || call == .open ? .fail(.permissionDenied) : nil }
    let error = expect(.fileSystem) { try store.remove(prefix: "ke") }
    #expect(error?.errno == .permissionDenied)
    trace.onCall(nil)
    #expect(try store.load("key") != nil)
  }

  /// A record that another process has removed first is not counted.
  @Test func removalByPrefixCountsWhatItRemoved() throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try store.store(payload(5), for: "key")
    let file = cache.path("ke/key")
    let locks = Lock(0)
    trace.onCall { call, _ in
      guard call == .takeStripe else { return nil }
      // Another process removes the record first.
      locks.withLock { $0 += 1 }
      #expect(throws: Never.self) { try FileManager.default.removeItem(atPath: file) }
      return nil
    }
    #expect(try store.remove(prefix: "ke").files == 0)
    #expect(locks.withLock { $0 } == 1)
  }

  /// R1: a symbolic link in place of a subdirectory is not followed; systems report it with two different errors.
  @Test(arguments: [Errno.notDirectory, .tooManySymbolicLinkLevels])
  func subdirectoryThatIsNoneHasNoRecord(errno: Errno) throws {
    try cache.store().store(payload(5), for: "key")
    let trace = CallTrace()
    // A separate store, which has not opened the subdirectory yet.
    let store = try cache.store(files: trace.files)
    trace.onCall { call, path in
      call == .openDirectory && path.lastComponent == "ke" ? .fail(errno) : nil
    }
    #expect(try store.remove("key") == .notFound)
    trace.onCall { call, path in call == .openDirectory && path.lastComponent == "ke" ? .fail(.ioError) : nil }
    expect(.fileSystem) { try store.remove("key") }
    #expect(try cache.files() == ["ke/key"])
  }

  /// R1: an unreadable entry is removed only if it is a file and still exists.
  @Test func whatCannotBeReadAndIsNoFileIsLeft() throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try cache.makeDirectory("ke/key")
    trace.onCall { call, path in
      call == .openBeneath && path.string.contains("/ke/") ? .fail(.permissionDenied) : nil
    }
    #expect(try store.remove("key") == .notFound)
    #expect(try store.remove("kez") == .notFound)
    #expect(try cache.exists("ke/key"))
  }

  /// R3.
  @Test func everyKeyGetsItsAnswer() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "a")
    try store.store(payload(5), for: "b", locks: .one)
    let keys: [BlobKey] = ["a", "", "absent", "b"]
    func answers(_ results: [BlobStore.KeyResult]) -> [String] {
      #expect(results.map(\.key) == keys)
      return results.map { result in
        switch result.result {
        case .success(let outcome): outcome.rawValue
        case .failure(let error): error.code.description
        }
      }
    }
    #expect(answers(store.touch(keys)) == ["done", "invalidKey", "notFound", "done"])
    #expect(answers(store.unlock(keys)) == ["notLocked", "invalidKey", "notFound", "done"])
    #expect(answers(store.lock(keys)) == ["done", "invalidKey", "notFound", "done"])
    #expect(answers(store.unlock(keys, force: true)) == ["done", "invalidKey", "notFound", "done"])
    #expect(answers(store.remove(keys)) == ["done", "invalidKey", "notFound", "done"])
  }
}

/// Spec/Semantics.md, W.
@Suite struct WipeTests {
  let cache: Cache
  let store: BlobStore

  /// Creates records (live, expired, locked, locked and expired, damaged, of a later version) and other files.
  init() throws {
    cache = try Cache()
    store = try cache.store()
    try store.store(payload(10), for: "live")
    try store.store(payload(20), for: "expired", ttl: .seconds(1))
    try store.store(payload(30), for: "locked", locks: .one)
    try store.store(payload(40), for: "lockedExpired", ttl: .seconds(1), locks: .one)
    try store.store(payload(50), for: "damaged", locks: .one)
    try Damage.invalidHeaderCRC.inflict(on: "da/damaged", in: cache)
    try store.store(payload(60), for: "later")
    try Damage.unsupportedFlags.inflict(on: "la/later", in: cache)
    try cache.write([1, 2, 3], to: "li/.tmp-12ab")
    try cache.write([1, 2, 3], to: "li/.hidden")
    cache.clock.advance(by: 2)
  }

  /// W1.
  @Test func wipesTheLockedWhateverTheirAge() throws {
    let report = try store.removeAll(.locked)
    #expect(report.files == 2)
    #expect(report.bytes == 64 * 2 + 70)
    #expect(
      try cache.files()
        == ["li/live", "ex/expired", "da/damaged", "la/later", "li/.tmp-12ab", "li/.hidden"])
  }

  /// W1.
  @Test func wipesTheUnlockedWhateverTheirAge() throws {
    let report = try store.removeAll(.unlocked)
    #expect(report.files == 2)
    #expect(report.bytes == 64 * 2 + 30)
    #expect(
      try cache.files()
        == ["lo/locked", "lo/lockedExpired", "da/damaged", "la/later", "li/.tmp-12ab", "li/.hidden"])
  }

  /// W2, W4.
  @Test func wipesEverythingThatIsOurs() throws {
    try cache.write([UInt8](repeating: 7, count: 100), to: ".quarantine/old")
    let report = try store.removeAll(.all)
    #expect(report.files == 8)
    #expect(report.bytes == 64 * 6 + 210 + 3 + 100)
    #expect(try cache.files() == ["li/.hidden"])
    #expect(try cache.outside.names(in: "cache").sorted() == [".blobcache", ".quarantine", "li"])
  }

  /// W2.
  @Test func wipeLeavesTemporaryFilesOfLivingWriters() throws {
    let writer = try LockedFile(cache.path("li/.tmp-12ab"))
    #expect(try store.removeAll(.all).files == 6)
    #expect(try cache.files() == ["li/.tmp-12ab", "li/.hidden"])
    try writer.unlock()
  }

  /// W3.
  @Test func wipeRefusesWhatMayBeNoCache() throws {
    let cache = try Cache()
    let store = try cache.store()
    #expect(try store.removeAll(.all).files == 0)
    try cache.write(Array("dear diary".utf8), to: "di/diary")
    try cache.write([1], to: "ab/.tmp-1")
    let before = try cache.snapshot()
    expect(.notACache) { try store.removeAll(.all) }
    #expect(try cache.snapshot() == before)
    try store.store(payload(5), for: "key", ttl: .seconds(1))
    cache.clock.advance(by: 2)
    #expect(try store.removeAll(.all).files == 3)
    #expect(try cache.files() == [])
  }

  /// W3: without a control file, a sound record identifies the directory as a cache.
  @Test func wipeTakesASoundRecordForACache() throws {
    let cache = try Cache()
    try cache.write(record(RecordHeader(updateTime: UInt64(cache.now), payloadSize: 0), [1]), to: "ke/key")
    try cache.write([1], to: "ab/abc")
    #expect(try cache.store().removeAll(.all).files == 2)
    #expect(try cache.files() == [])
  }

  /// W1, W5: the lock count of an unreadable record is unknown.
  @Test(arguments: [BlobStore.RemovalScope.locked, .unlocked]) func wipeReportsWhatItCannotRead(
    scope: BlobStore.RemovalScope
  ) throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    trace.onCall { call, path in
      call == .openBeneath && path.string.hasSuffix("/live") ? .fail(.ioError) : nil
    }
    let error = expect(.fileSystem) { try store.removeAll(scope) }
    #expect(error?.errno == .ioError)
    let removed = scope == .locked ? ["lo/locked", "lo/lockedExpired"] : ["ex/expired"]
    #expect(try cache.files().isDisjoint(with: removed))
    #expect(try cache.files().contains("li/live"))
  }

  /// W3.
  @Test func wipeOfWhatCannotBeListedSaysSo() throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    trace.onCall { call, _ in call == .listDirectory ? .fail(.ioError) : nil }
    let error = expect(.fileSystem) { try store.removeAll(.all) }
    #expect(error?.errno == .ioError)
  }

  /// W5.
  @Test func wipeGoesOnPastWhatItCannotRemove() throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    trace.onCall { call, path in
      call == .unlink && path.string.hasSuffix("/locked") ? .fail(.readOnlyFileSystem) : nil
    }
    let error = expect(.fileSystem) { try store.removeAll(.all) }
    #expect(error?.errno == .readOnlyFileSystem)
    #expect(try cache.files() == ["lo/locked", "li/.hidden"])
  }

  /// W6.
  @Test func wipeTellsHowFarItHasCome() throws {
    let cache = try Cache()
    let store = try cache.store()
    for index in 0..<600 { try store.store(payload(36), for: BlobKey("\(index % 5) record \(index)")) }
    try store.collect()
    let calls = Lock<[BlobStore.RemovalProgress]>([])
    var options = BlobStore.RemovalOptions()
    options.progress = { progress in calls.withLock { $0.append(progress) } }
    let report = try store.removeAll(.unlocked, options)
    let told = calls.withLock { $0 }
    #expect(told.map(\.examined) == [256, 512, 600])
    #expect(told.map(\.removed.files) == [256, 512, 600])
    #expect(told.allSatisfy { $0.expected == 600 })
    #expect(told.last?.removed == report)
    #expect(report.bytes == 60_000)
  }

  /// W7.
  @Test(arguments: BlobStore.RemovalScope.allCases) func wipeThatIsStoppedLeavesTheRest(
    scope: BlobStore.RemovalScope
  ) throws {
    let cache = try Cache()
    let trace = CallTrace()
    let store = try cache.store(files: trace.files) { $0.durability = .full }
    for index in 0..<20 {
      try store.store(payload(36), for: BlobKey("\(index % 3) record \(index)"), locks: scope == .locked ? .one : .none)
    }
    let asked = Lock(0)
    var options = BlobStore.RemovalOptions()
    options.isStopped = {
      asked.withLock {
        $0 += 1
        return $0 == 9
      }
    }
    _ = trace.take()
    let report = try store.removeAll(scope, options)
    #expect(report.wasStopped)
    #expect(report.files == 9)
    #expect(try cache.files().count == 11)
    // The wipe syncs the root and at least two subdirectories, one of which it has not finished.
    #expect(trace.count(.sync) >= 3)
    options.isStopped = nil
    let rest = try store.removeAll(scope, options)
    #expect(rest.files == 11)
    #expect(!rest.wasStopped)
  }
}
