import BlobRecord
import BlobStore
import Foundation
import Posix
import Synchronization
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, M: limits enforced by stores.
@Suite(.timeLimit(.minutes(30))) struct LimitTests {
  let cache: Cache
  static func slack(_ limit: Int64) -> Int64 { min(limit / 5, 16 << 20) }

  init() throws { cache = try Cache() }

  private func store(
    files: Files = Files(), _ change: (inout BlobStore.Configuration) -> Void
  ) throws -> BlobStore {
    try cache.store(files: files) {
      $0.limits.collectsOnStore = true
      change(&$0)
    }
  }

  /// M1: limits in bytes, in records, and for exclusive use by one process.
  @Test(
    arguments: [(1000, nil, .shared), (nil, 10, .shared), (1000, nil, .exclusive)]
      as [(Int64?, Int64?, BlobStore.Sharing)])
  func aStoreOverTheLimitStartsACollection(bytes: Int64?, records: Int64?, sharing: BlobStore.Sharing) throws {
    let store = try store {
      $0.limits.size = bytes
      $0.limits.count = records
      $0.access.sharing = sharing
    }
    for key in 0..<10 {
      try store.store(payload(36), for: "key \(key)")
      store.waitForCollection()
      cache.clock.advance(by: 1)
    }
    #expect(try store.usage().records == 10)
    try store.store(payload(36), for: "one more")
    store.waitForCollection()
    let left = Set(try store.records().compactMap { $0.key?.string })
    #expect(left == Set((2..<10).map { "key \($0)" } + ["one more"]))
    #expect(try store.statistics().evicted == 2)
    #expect(try store.usageEstimate()?.bytes == 900)
  }

  /// M1: stores are not forgotten if they occur at the end of a collection that has already checked the limits.
  @Test(arguments: [true, false]) func whoComesDuringACollectionIsNotForgotten(isOwn: Bool) throws {
    let store = try store { $0.limits.size = 4000 }
    for key in 0..<40 {
      try store.store(payload(36), for: "key \(key)")
      store.waitForCollection()
      cache.clock.advance(by: 1)
    }
    let collections = Atomic(0)
    let collector = isOwn ? store : try cache.store()
    collector.observeCollections(
      by: CollectionObserver(willBegin: {}, didRemove: { _ in }) { _ in
        guard collections.add(1, ordering: .relaxed).newValue == 1 else { return }
        // More than the collection has left free, and less than the bound, because no store may wait here.
        for key in 0..<6 {
          #expect(throws: Never.self) { try store.store(payload(36), for: "late \(key)") }
        }
        // The thread needs time to detect that another process is collecting.
        if !isOwn { usleep(50_000) }
      })
    // The observer and the store retain each other.
    defer { collector.observeCollections(by: CollectionObserver(willBegin: {}, didRemove: { _ in }, didEnd: { _ in })) }
    if isOwn { try store.store(payload(36), for: "one more") } else { _ = try collector.collect() }
    store.waitForCollection()
    #expect(collections.load(ordering: .relaxed) > 0)
    #expect((36...40).contains(try store.usage().records))
    #expect(try store.contains("late 5"))
  }

  /// M1: without the option, stores start no collection.
  @Test func aStoreMayLeaveItToOthers() throws {
    let store = try cache.store { $0.limits.size = 1000 }
    for key in 0..<30 { try store.store(payload(36), for: "key \(key)") }
    store.waitForCollection()
    #expect(try store.usage().records == 30)
    #expect(try store.statistics().passes == 0)
  }

  /// M2: the first store counts the records that are older than the counters.
  @Test func theFirstStoreFindsOutWhatThereIs() throws {
    let other = try cache.store()
    for key in 0..<30 {
      try other.store(payload(36), for: "key \(key)", ttl: .seconds(1000))
      cache.clock.advance(by: 1)
    }
    try FileManager.default.removeItem(atPath: cache.path(".blobcache"))
    let store = try store { $0.limits.size = 2000 }
    try store.store(payload(36), for: "new")
    store.waitForCollection()
    #expect(try store.usageEstimate()?.bytes == 1800)
    #expect(try store.contains("new"))
  }

  /// M3.
  @Test func theBlobJustStoredIsNotTheVictim() throws {
    let store = try store { $0.limits.size = 100 }
    for key in 0..<20 {
      try store.store(payload(36), for: "key \(key)")
      store.waitForCollection()
      #expect(try store.contains("key \(key)"))
      #expect(try store.usage().records == 1)
    }
  }

  /// S6.
  @Test func aPayloadOverTheLimitIsRefusedAndTheOldBlobStays() throws {
    let store = try store { $0.limits.size = 1000 }
    try store.store(payload(36), for: "key")
    expect(.payloadTooLarge) { try store.store(payload(937), for: "key") }
    store.waitForCollection()
    #expect(try store.load("key")?.payload == payload(36))
    try store.store(payload(936), for: "key")
  }

  /// M4: no record can be evicted.
  @Test func aStoreBeyondTheBoundIsRefusedWhereAllIsLocked() throws {
    let limit: Int64 = 20 << 20
    let store = try store { $0.limits.size = limit }
    let big = payload(1_000_000)
    var stored = 0
    let error = expect(.limitReached) {
      while stored < 30 {
        try store.store(big, for: "locked \(stored)", locks: .one)
        stored += 1
        // A store during a collection may be counted twice until the next collection.
        store.waitForCollection()
      }
    }
    #expect(error?.key == BlobKey("locked \(stored)"))
    #expect(stored == Int(limit + Self.slack(limit) - limit / 100) / 1_000_064)
    // A store that needs no additional room is not refused, and loads and removals succeed.
    try store.store(big, for: "locked 0", locks: .one)
    #expect(try store.load("locked 1") != nil)
    let passes = try store.statistics().passes
    expect(.limitReached) { try store.store(big, for: "other") }
    store.waitForCollection()
    // The first collection reports that it was of no use, so the store requests no others until its timeout.
    #expect(try store.statistics().passes <= passes + 2)
    #expect(try cache.files().count { $0.contains(".tmp-") } == 0)
    try store.unlock("locked 1")
    try store.remove("locked 2")
    try store.store(big, for: "other")
  }

  /// M4: threads of several stores, as in several processes, on one directory.
  @Test(arguments: [BlobStore.Sharing.shared]) func aSteadyStreamNeverExceedsTheBound(sharing: BlobStore.Sharing) throws
  {
    let cache = cache
    let limit: Int64 = 2 << 20
    let bound = limit + Self.slack(limit)
    let isDone = Atomic(false)
    let largest = Atomic<Int64>(0)
    let blob = payload(100_000)
    let stores = try (0..<3).map { _ in
      try store {
        $0.limits.size = limit
        $0.access.lockTimeout = .seconds(120)
        $0.now = { UnixTime(seconds: Int64(Date().timeIntervalSince1970)) }
      }
    }
    let watcher = Thread {
      while !isDone.load(ordering: .relaxed) {
        let bytes = (try? cache.recordBytes()) ?? 0
        largest.max(bytes, ordering: .relaxed)
        usleep(2000)
      }
    }
    watcher.start()
    DispatchQueue.concurrentPerform(iterations: stores.count) { index in
      for key in 0..<150 {
        #expect(throws: Never.self) { try stores[index].store(blob, for: "\(index) key \(key)") }
      }
    }
    isDone.store(true, ordering: .relaxed)
    for store in stores { store.waitForCollection() }
    #expect(largest.load(ordering: .relaxed) <= bound)
    #expect(try stores[0].collect().bytesAfter <= limit)
    #expect(try stores[0].statistics().evicted > 100)
  }

  /// M4: a record that waits for room gets it, although the limit is not exceeded without it.
  @Test(arguments: [BlobStore.Recycling.automatic, .off], [false, true])
  func aLargeRecordIsGivenRoom(recycling: BlobStore.Recycling, knowsVictims: Bool) throws {
    let mebibyte: Int64 = 1 << 20
    let store = try store {
      $0.limits.size = 24 * mebibyte
      $0.recycling = recycling
      $0.access.lockTimeout = .seconds(60)
    }
    let blob = payload(1 << 20)
    for key in 0..<(knowsVictims ? 60 : 23) {
      try store.store(blob, for: "key \(key)")
      store.waitForCollection()
      cache.clock.advance(by: 1)
    }
    let before = try #require(try store.usageEstimate())
    #expect(before.bytes > 20 * mebibyte && before.bytes <= 24 * mebibyte)
    let large = Data(repeating: 7, count: Int(19 * mebibyte))
    try store.store(large, for: "large")
    #expect(try store.load("large")?.payload == large)
    store.waitForCollection()
    let after = try #require(try store.usageEstimate())
    #expect(after.bytes <= 24 * mebibyte)
    #expect(after.records > 1)
  }

  /// Returns a store with a limit of 24 MiB that contains `count` records of a mebibyte.
  private func storeOf24Mebibytes(_ trace: CallTrace, after count: Int) throws -> BlobStore {
    let store = try store(files: trace.files) {
      $0.limits.size = 24 << 20
      $0.recycling = .off
      $0.access.lockTimeout = .seconds(60)
    }
    let blob = payload(1 << 20)
    for key in 0..<count {
      try store.store(blob, for: "key \(key)")
      store.waitForCollection()
      cache.clock.advance(by: 1)
    }
    return store
  }

  /// M4: a record that has found room, or only checks for room, is not counted twice by the collection that makes it.
  @Test func whatHasFoundRoomIsCountedOnce() throws {
    let trace = CallTrace()
    let store = try storeOf24Mebibytes(trace, after: 26)
    let storing = ObjectIdentifier(Thread.current)
    let isPublished = Atomic(false)
    trace.onCall { call, path in
      guard ObjectIdentifier(Thread.current) == storing else { return nil }
      if call == .publication, path.string.hasSuffix("/large") { isPublished.store(true, ordering: .relaxed) }
      // This is the next call of the store.
      if call == .freeStripe, isPublished.load(ordering: .relaxed) { store.waitForCollection() }
      return nil
    }
    try store.store(Data(count: 19 << 20), for: "large")
    trace.onCall(nil)
    store.waitForCollection()
    #expect(try store.usage().records > 1)
  }

  /// M4: a store that has found room, and then has to be repeated, waits again if others have used the room.
  @Test func aStoreThatLosesItsRoomWaitsAgain() throws {
    let trace = CallTrace()
    let store = try storeOf24Mebibytes(trace, after: 23)
    let other = try cache.store { $0.recycling = .off }
    let storing = ObjectIdentifier(Thread.current)
    let losses = Atomic(0)
    trace.onCall { call, _ in
      // The record is counted and about to be published, after a collection has made room for it.
      guard [.linkUnnamed, .rename, .renameNoReplace].contains(call), ObjectIdentifier(Thread.current) == storing,
        let usage = try? other.usageEstimate(), usage.records < 23, losses.add(1, ordering: .relaxed).oldValue == 0
      else { return nil }
      store.waitForCollection()
      // The limit is kept, but leaves no room for the record.
      for key in 0..<23 where ((try? other.usageEstimate()?.bytes) ?? 0) < 41 << 20 {
        #expect(throws: Never.self) { try other.store(payload(1 << 20), for: "other \(key)") }
      }
      // The subdirectory was removed and is made again.
      return .fail(.noSuchFileOrDirectory)
    }
    try store.store(Data(count: 19 << 20), for: "large")
    trace.onCall(nil)
    store.waitForCollection()
    #expect(losses.load(ordering: .relaxed) > 0)
    #expect(try store.load("large") != nil)
    #expect(try store.usage().bytes <= 24 << 20)
  }

  /// M4: a record is not counted twice by a walk that began while it waited, even if the counters fall meanwhile.
  @Test(arguments: [20, 3]) func whatFindsRoomDuringAWalkIsCountedOnce(removals: Int) throws {
    let trace = CallTrace()
    let store = try storeOf24Mebibytes(trace, after: 23)
    let other = try cache.store { $0.recycling = .off }
    let storing = ObjectIdentifier(Thread.current)
    let isStored = Gate()
    trace.onCall { call, _ in
      guard call == .listDirectory, ObjectIdentifier(Thread.current) != storing else { return nil }
      trace.onCall(nil)
      for key in 0..<removals { #expect(throws: Never.self) { try other.remove("key \(key)") } }
      isStored.wait()
      return nil
    }
    do {
      defer { isStored.open() }
      try store.store(Data(count: 8 << 20), for: "large")
    }
    store.waitForCollection()
    #expect(try store.usage().records > 2)
    #expect(try store.usageEstimate()?.bytes == store.usage().bytes)
  }

  /// M5: a steady stream of stores walks the directory only occasionally.
  @Test func nextVictimsSpareWalks() throws {
    let store = try store { $0.limits.size = 100_000 }
    for key in 0..<3000 {
      try store.store(payload(36), for: "key \(key)", ttl: .seconds(1_000_000))
      store.waitForCollection()
      cache.clock.advance(by: 1)
    }
    let statistics = try store.statistics()
    #expect(statistics.evictions > 10)
    #expect(statistics.passes < statistics.evictions / 2)
    let left = Set(try store.records().compactMap { $0.key?.string })
    #expect(left == Set(((3000 - left.count)..<3000).map { "key \($0)" }))
    #expect(left.count >= 900 && left.count <= 1000)
  }

  /// M5: victims that were touched, locked, or stored since are judged again.
  @Test func nextVictimsAreJudgedAgain() throws {
    let store = try store { $0.limits.size = 1000 }
    let other = try cache.store()
    for key in 0..<11 {
      try store.store(payload(36), for: "key \(key)")
      store.waitForCollection()
      cache.clock.advance(by: 1)
    }
    // Two records have been evicted; the next victims would be 2, 3, and 4.
    #expect(try other.touch("key 2") == .done)
    #expect(try other.lock("key 3") == .done)
    try other.store(payload(36), for: "key 4")
    for key in 11..<13 {
      try store.store(payload(36), for: "key \(key)")
      store.waitForCollection()
    }
    #expect(try store.statistics().evictions == 1)
    let left = Set(try store.records().compactMap { $0.key?.string })
    #expect(left == Set([2, 3, 4, 7, 8, 9, 10, 11, 12].map { "key \($0)" }))
  }

  /// M6: the record's file has no room until a collection has made some.
  @Test(arguments: [SystemCall.write, .creation, .publication]) func aFullVolumeLeadsToACollectionAndOneMoreTry(
    call: SystemCall
  ) throws {
    let trace = CallTrace()
    let cache = cache
    // Overwriting a file would need no room.
    let store = try store(files: trace.files) { $0.recycling = .off }
    try cache.store().store(payload(5), for: "expired", ttl: .seconds(1))
    try store.store(payload(5), for: "key")
    cache.clock.advance(by: 2)
    let isFull: @Sendable (SystemCall, FilePath) -> Files.Interception? = { made, path in
      guard made == call, path.string.contains("ke/"), try! cache.exists("ex/expired") else { return nil }
      return .fail(.noSpace)
    }
    trace.onCall(isFull)
    try store.store(payload(6), for: "key")
    #expect(try store.load("key")?.payload == payload(6))
    #expect(try store.statistics().passes == 1)
    // Each full volume leads to a collection.
    try cache.store().store(payload(5), for: "expired", ttl: .seconds(1))
    cache.clock.advance(by: 2)
    try store.store(payload(7), for: "key")
    #expect(try store.load("key")?.payload == payload(7))
    #expect(try store.statistics().passes == 2)
    // After a useless collection, the next one starts a minute later at the earliest.
    try cache.store().store(payload(5), for: "expired", ttl: .seconds(1), locks: .one)
    cache.clock.advance(by: 2)
    for _ in 0..<2 {
      let error = expect(.fileSystem) { try store.store(payload(8), for: "key") }
      #expect(error?.errno == .noSpace)
      #expect(try store.statistics().passes == 3)
    }
    trace.onCall(nil)
    #expect(try store.load("key")?.payload == payload(7))
  }

  /// M7: if its store is released, a running collection ends in a small directory, and stops in a large one.
  @Test(arguments: [200, 5000]) func aStoreThatGoesEndsItsCollection(count: Int) throws {
    let trace = CallTrace()
    let other = try cache.store()
    for key in 0..<count { try other.store(payload(36), for: "ke\(key)") }
    let (hasBegun, isGoing) = (Gate(), Gate())
    // All records together are above the limit, and below the bound.
    let limit = Int64(count * 90)
    var store: BlobStore? = try store(files: trace.files) {
      $0.limits.size = limit
      $0.recycling = .off
    }
    trace.onCall { call, _ in
      if call == .listDirectory {
        hasBegun.open()
        isGoing.wait()
      }
      // All evictions of the large directory together would take more than a minute.
      if call == .unlink { usleep(count == 200 ? 1000 : 200_000) }
      return nil
    }
    try store?.store(payload(36), for: "one more")
    #expect(hasBegun.wait())
    isGoing.open()
    store = nil
    let calls = trace.take().count
    usleep(20_000)
    #expect(trace.take().isEmpty, "after \(calls)")
    #expect((try other.usage().bytes <= limit) == (count == 200))
  }
}

extension Cache {
  /// Returns a lower bound of the bytes of all record files at one moment, as the file system reports them.
  ///
  /// Names are never reused, so all files in two listings existed together when the first one ended. The files in a
  /// single listing may have existed one after another.
  fileprivate func recordBytes() throws -> Int64 {
    let first = try recordSizes()
    let second = try recordSizes()
    return first.reduce(0) { second[$1.key] == nil ? $0 : $0 + $1.value }
  }

  private func recordSizes() throws -> [String: Int64] {
    try FileManager.default.subpathsOfDirectory(atPath: root.string).reduce(into: [:]) { sizes, file in
      guard file.contains("/"), !file.contains(".tmp-"), !file.hasPrefix(".recycled"), let status = try? state(file)
      else { return }
      sizes[file] = status.size
    }
  }
}
