import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, M6 and M8: a volume that is full, or nearly full.
@Suite(.timeLimit(.minutes(30))) struct NoRoomTests {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  private func store(_ change: (inout BlobStore.Configuration) -> Void = { _ in }) throws -> BlobStore {
    try cache.store(files: trace.files) {
      $0.limits.collectsOnStore = true
      $0.limits.size = 1 << 30
      // Overwriting a file would need no room.
      $0.recycling = .off
      change(&$0)
    }
  }

  /// Makes a call for a new record fail for lack of room while there are `count` records or more.
  private func holdNoMore(than count: Int, _ call: SystemCall = .write, _ errno: Errno = .noSpace) {
    let cache = cache
    trace.onCall { made, path in
      guard made == call, path.string.contains("/ke/"), cache.count() >= count else { return nil }
      return .fail(errno)
    }
  }

  private func keys(_ store: BlobStore) throws -> Set<String> {
    Set(try store.records().compactMap { $0.key?.string })
  }

  /// M6: room is made as often as necessary, and the oldest records are evicted first.
  @Test(
    arguments: [SystemCall.write, .creation, .publication], [Errno.noSpace, .diskQuotaExceeded])
  func everyStoreFindsRoom(call: SystemCall, errno: Errno) throws {
    let store = try store()
    holdNoMore(than: 5, call, errno)
    for key in 0..<30 {
      try store.store(payload(36), for: "key \(key)", ttl: .seconds(1000))
      #expect(try store.contains("key \(key)"))
      cache.clock.advance(by: 1)
    }
    #expect(try keys(store) == Set((25..<30).map { "key \($0)" }))
  }

  /// M6: more is freed than the file takes, so that not every store has to make room.
  @Test func moreIsFreedThanTheFileTakes() throws {
    let store = try store { $0.limits.evictionTarget = 0.5 }
    for key in 0..<20 {
      try store.store(payload(36), for: "key \(key)", ttl: .seconds(1000))
      cache.clock.advance(by: 1)
    }
    store.waitForCollection()
    let passes = try store.statistics().passes
    holdNoMore(than: 20)
    try store.store(payload(36), for: "key 20", ttl: .seconds(1000))
    #expect(try keys(store) == Set((10..<21).map { "key \($0)" }))
    #expect(try store.statistics().passes == passes + 1)
  }

  /// M6: a limit on the number of records is also a limit.
  @Test func aLimitOfRecordsLetsTheOldestGo() throws {
    let store = try store {
      $0.limits.size = nil
      $0.limits.count = 1000
    }
    for key in 0..<3 {
      try store.store(payload(36), for: "key \(key)", ttl: .seconds(1000))
      cache.clock.advance(by: 1)
    }
    store.waitForCollection()
    holdNoMore(than: 3)
    try store.store(payload(36), for: "key 3")
    #expect(try keys(store) == ["key 1", "key 2", "key 3"])
  }

  /// M6, C16: without a limit, only expired records are removed.
  @Test(arguments: [true, false]) func withoutALimitNothingIsEvicted(isExpired: Bool) throws {
    let store = try store { $0.limits.size = nil }
    for key in 0..<3 { try store.store(payload(36), for: "key \(key)", ttl: .seconds(1000)) }
    holdNoMore(than: 3)
    if isExpired {
      cache.clock.advance(by: 1001)
      try store.store(payload(36), for: "key 3")
      #expect(try keys(store) == ["key 3"])
    } else {
      let error = expect(.fileSystem) { try store.store(payload(36), for: "key 3") }
      #expect(error?.errno == .noSpace)
      #expect(try keys(store) == ["key 0", "key 1", "key 2"])
    }
  }

  /// M6: after a collection that has freed nothing, the next one starts a minute later at the earliest.
  @Test func whereAllIsLockedItIsTriedOnce() throws {
    let store = try store()
    for key in 0..<3 { try store.store(payload(36), for: "key \(key)", locks: .one) }
    store.waitForCollection()
    let passes = try store.statistics().passes
    holdNoMore(than: 3)
    for _ in 0..<3 {
      let error = expect(.fileSystem) { try store.store(payload(36), for: "key 3") }
      #expect(error?.errno == .noSpace)
      #expect(try store.statistics().passes == passes + 1)
    }
    #expect(try keys(store) == ["key 0", "key 1", "key 2"])
  }

  /// S5: a store that needs room does not evict the record that it replaces.
  @Test func aStoreThatFailsLeavesTheOldRecord() throws {
    let store = try store()
    try store.store(payload(36, 7), for: "key 0", ttl: .seconds(1000))
    cache.clock.advance(by: 1)
    for key in 1..<4 { try store.store(payload(36), for: "key \(key)", ttl: .seconds(1000)) }
    holdNoMore(than: 0)
    let error = expect(.fileSystem) { try store.store(payload(36), for: "key 0", ttl: .seconds(1000)) }
    #expect(error?.errno == .noSpace)
    #expect(try keys(store).contains("key 0"))
    #expect(try store.load("key 0")?.payload == payload(36, 7))
  }

  /// M6: if the file cannot be created, no input has been read yet.
  @Test func aStreamWhoseFileCannotBeMadeFindsRoom() throws {
    let store = try store()
    for key in 0..<5 {
      try store.store(payload(36), for: "key \(key)", ttl: .seconds(1000))
      cache.clock.advance(by: 1)
    }
    let cache = cache
    trace.onCall { call, path in
      [.open, .openUnnamed].contains(call) && path.string.contains("/ke/.") && cache.count() >= 5
        ? .fail(.noSpace) : nil
    }
    let (readEnd, writeEnd) = try FileDescriptor.pipe()
    defer { try? readEnd.close() }
    try writeEnd.closeAfter { _ = try writeEnd.writeAll(payload(36)) }
    #expect(try store.store(contentsOf: readEnd, for: "key 5") == 36)
    trace.onCall(nil)
    #expect(try store.load("key 5")?.payload == payload(36))
    #expect(try !store.contains("key 0"))
  }

  /// M6: input from a pipe is read once, and the store continues where it stopped.
  @Test func whatIsReadFromAPipeFindsRoomOnItsWay() throws {
    let store = try store()
    for key in 0..<3 {
      try store.store(payload(36), for: "key \(key)", ttl: .seconds(1000))
      cache.clock.advance(by: 1)
    }
    let (cache, writes) = (cache, CallCount())
    trace.onCall { call, path in
      guard call == .write, path.string.contains("/ke/") else { return nil }
      writes.add(1)
      return writes.value > 4 && cache.count() >= 3 ? .fail(.noSpace) : nil
    }
    let blob = payload(3 << 20)
    let pipe = Pipe()
    let writer = Thread {
      // A store that fails closes its end of the pipe.
      try? pipe.fileHandleForWriting.write(contentsOf: blob)
      try? pipe.fileHandleForWriting.close()
    }
    writer.start()
    let input = FileDescriptor(rawValue: pipe.fileHandleForReading.fileDescriptor)
    #expect(try store.store(contentsOf: input, for: "key 3", ttl: .seconds(1000)) == 3 << 20)
    #expect(try store.load("key 3")?.payload == blob)
    #expect(try !store.contains("key 0") && store.contains("key 2"))
  }

  /// M6: if several stores find no room concurrently, one collects, and the others retry after it.
  @Test func oneCollectionIsMadeForAll() throws {
    let store = try store { $0.access.lockTimeout = .seconds(300) }
    try store.store(payload(36), for: "expired", ttl: .seconds(1))
    store.waitForCollection()
    let passes = try store.statistics().passes
    cache.clock.advance(by: 2)
    let (cache, failures) = (cache, CallCount())
    trace.onCall { call, path in
      if call == .write, path.string.contains("/ke/"), try! cache.exists("ex/expired") {
        failures.add(1)
        return .fail(.noSpace)
      }
      // The collection starts its walk only after all stores have failed.
      while call == .listDirectory, failures.value < 4 { usleep(1000) }
      return nil
    }
    let stored = CallCount()
    let threads = try (0..<4).map { number in
      try OwnedThread {
        #expect(throws: Never.self) { try store.store(payload(36), for: "key \(number)") }
        stored.add(1)
      }
    }
    for thread in threads { thread.join() }
    trace.onCall(nil)
    #expect(stored.value == 4 && failures.value == 4)
    #expect(try store.statistics().passes == passes + 1)
  }
}

// MARK: - The free space floor

extension NoRoomTests {
  /// M8: a floor that cannot be reached evicts all other records, but refuses no store.
  @Test func theFloorEvictsAndRefusesNothing() throws {
    let store = try store {
      $0.limits.freeSpaceFloor = 1 << 60
      $0.limits.size = 1 << 20
    }
    for key in 0..<20 {
      // More than a hundredth of the limit, with which another attempt is made after one that was of no use.
      try store.store(payload(12_000), for: "key \(key)", ttl: .seconds(1000))
      store.waitForCollection()
      #expect(try store.contains("key \(key)"))
    }
    #expect(try store.statistics().evicted > 0)
    // The limit itself is not exceeded.
    #expect(try store.usage().bytes < 1 << 20)
  }

  /// M8: the known free space also determines how many known victims are evicted.
  @Test func theFloorIsKeptWithKnownVictims() throws {
    let store = try store()
    for key in 0..<20 {
      try store.store(payload(36), for: "key \(key)", ttl: .seconds(1000))
      cache.clock.advance(by: 1)
    }
    // The collection makes the counters known.
    store.waitForCollection()
    #expect(try store.statistics().evicted == 0)
    let other = try self.store { $0.limits.freeSpaceFloor = 1 << 60 }
    try other.store(payload(36), for: "key 20", ttl: .seconds(1000))
    other.waitForCollection()
    #expect(try keys(store) == ["key 20"])
  }

  /// M8: without a limit, or with a floor of zero, no store queries the volume.
  @Test(arguments: [(nil, 1 << 60), (1 << 30, 0)] as [(Int64?, Int64)])
  func nobodyAsksForWhatDoesNotMatter(limit: Int64?, floor: Int64) throws {
    let store = try store {
      $0.limits.size = limit
      $0.limits.freeSpaceFloor = floor
    }
    try store.store(payload(36), for: "key", ttl: .seconds(1000))
    // The collection makes the counters known, and queries the volume as each collection with a limit does.
    store.waitForCollection()
    let first = looks()
    let blob = payload(1 << 20)
    for _ in 0..<65 { try store.store(blob, for: "key", ttl: .seconds(1000)) }
    store.waitForCollection()
    #expect(try keys(store) == ["key"])
    #expect(looks() == first)
  }

  /// M8: a store object queries the volume at its first store, and then after each step of 1 MiB to 64 MiB.
  @Test func theVolumeIsLookedAtNowAndThen() throws {
    let store = try store { $0.limits.freeSpaceFloor = 1 }
    try store.store(payload(36), for: "key", ttl: .seconds(1000))
    store.waitForCollection()
    let first = looks()
    #expect(first > 0)
    for _ in 0..<20 { try store.store(payload(36), for: "key", ttl: .seconds(1000)) }
    store.waitForCollection()
    #expect(looks() == first)
    let blob = payload(1 << 20)
    for _ in 0..<64 { try store.store(blob, for: "key", ttl: .seconds(1000)) }
    store.waitForCollection()
    #expect(looks() > first && looks() <= first + 64)
  }

  /// M8: a failed query of the volume does not prevent a store.
  @Test func aLookThatFailsCostsNothing() throws {
    let store = try store { $0.limits.freeSpaceFloor = 1 }
    let root = cache.root
    trace.onCall { call, path in call == .volumeStatus && path == root ? .fail(.ioError) : nil }
    let blob = payload(1 << 20)
    for _ in 0..<3 { try store.store(blob, for: "key", ttl: .seconds(1000)) }
    store.waitForCollection()
    #expect(looks() > 1)
    #expect(try store.load("key")?.payload == blob)
  }

  /// Returns the number of queries of the root's volume, without the queries that decide about mapping a file.
  private func looks() -> Int { trace.count { $0.call == .volumeStatus && $0.path == cache.root.string } }
}

extension Cache {
  /// Returns the number of records below `ke`.
  func count() -> Int {
    ((try? FileManager.default.contentsOfDirectory(atPath: path("ke"))) ?? []).count { !$0.hasPrefix(".") }
  }
}
