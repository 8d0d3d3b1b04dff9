import BlobRecord
import BlobStore
import Foundation
import Posix
import Synchronization
import TestSupport
import Testing

/// Spec/Semantics.md, Y3a: writers reserve space within the limits.
@Suite(.timeLimit(.minutes(30))) struct ReservationTests {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  private func store(
    size: Int64, files: Files = Files(), _ change: (inout BlobStore.Configuration) -> Void = { _ in }
  ) throws -> BlobStore {
    try cache.store(files: files) {
      $0.limits.collectsOnStore = true
      $0.limits.size = size
      $0.recycling = .off
      change(&$0)
    }
  }

  /// Stores ten blobs of 100 KiB, one per second.
  private func fill(_ store: BlobStore, locks: BlobStore.LockPolicy = .none) throws {
    for number in 0..<10 {
      try store.store(payload(102_400 - 64), for: "key \(number)", ttl: .seconds(10_000), locks: locks)
      store.waitForCollection()
      cache.clock.advance(by: 1)
    }
  }

  private func keys(_ store: BlobStore) throws -> Set<String> {
    Set(try store.records().compactMap { $0.key?.string })
  }

  /// Opening a writer makes space for its blob by evicting the oldest ones.
  @Test func roomIsMadeAhead() throws {
    let store = try store(size: 1_024_000) { $0.limits.evictionTarget = 1 }
    try fill(store)
    #expect(try keys(store).count == 10)
    var writer = try store.openWriter(for: "new", ttl: .seconds(10_000), expectedSize: 204_800 - 64)
    store.waitForCollection()
    #expect(try keys(store) == Set((2..<10).map { "key \($0)" }))
    try writer.append(payload(204_800 - 64))
    try writer.commit()
    store.waitForCollection()
    #expect(try keys(store) == Set((2..<10).map { "key \($0)" } + ["new"]))
  }

  /// Collections that stores start keep the reserved space free until the writer ends.
  @Test func roomStaysReserved() throws {
    let store = try store(size: 1_024_000) { $0.limits.evictionTarget = 1 }
    try fill(store)
    let writer = try store.openWriter(for: "new", expectedSize: 512_000 - 64)
    store.waitForCollection()
    #expect(try store.usageEstimate()?.bytes == 512_000)
    try fill(store)
    #expect(try store.usageEstimate()?.bytes == 1_024_000)
    try store.store(payload(36), for: "one more", ttl: .seconds(10_000))
    store.waitForCollection()
    #expect(try #require(try store.usageEstimate()).bytes <= 512_000)
    writer.discard()
    try fill(store)
    try store.store(payload(36), for: "another", ttl: .seconds(10_000))
    store.waitForCollection()
    #expect(try #require(try store.usageEstimate()).bytes > 900_000)
  }

  /// A writer without an expected size reserves more space as its blob grows.
  @Test func roomIsMadeAsTheBlobGrows() throws {
    let store = try store(size: 10 << 20) { $0.limits.evictionTarget = 1 }
    for number in 0..<10 {
      try store.store(payload((1 << 20) - 64), for: "key \(number)", ttl: .seconds(10_000))
      store.waitForCollection()
      cache.clock.advance(by: 1)
    }
    var writer = try store.openWriter(for: "new", ttl: .seconds(10_000))
    var counts: [Int] = []
    for _ in 0..<5 {
      try writer.append(payload(1 << 20))
      store.waitForCollection()
      counts.append(try keys(store).count)
    }
    #expect(counts == [10, 8, 8, 6, 6] || counts == [10, 8, 7, 6, 5], "\(counts)")
    writer.discard()
  }

  /// M4: if all records are locked, a writer that would exceed the limit by far is refused when it is opened.
  @Test func whatFindsNoRoomIsRefusedAtOnce() throws {
    let store = try store(size: 20 << 20)
    try store.store(payload(19 << 20), for: "locked", ttl: .seconds(10_000), locks: .one)
    store.waitForCollection()
    // Stores may exceed the limit by a tenth or by 16 MiB.
    let error = expect(.limitReached) { _ = try store.openWriter(for: "new", expectedSize: 18 << 20) }
    #expect(error?.key == "new" && error?.operation == "store")
    #expect(try cache.files() == ["lo/locked"])
    // The space of the replaced record is available.
    var writer = try store.openWriter(for: "locked", ttl: .seconds(10_000), locks: .keep, expectedSize: 18 << 20)
    try writer.append(payload(18 << 20))
    try writer.commit()
    #expect(try store.load("locked")?.payload.count == 18 << 20)
  }

  /// M1, Y4a: if locked records prevent a reservation, not every store starts a collection.
  @Test(arguments: [19, 21]) func roomThatCannotBeMadeIsNotTriedForAgainAndAgain(mebibytes: Int) throws {
    let store = try store(size: 20 << 20)
    for (key, size) in [("locked", 10), ("too", mebibytes - 10)] {
      try store.store(Data(count: size << 20), for: BlobKey(key), ttl: .seconds(10_000), locks: .one)
    }
    store.waitForCollection()
    let collections = Atomic(0)
    store.observeCollections(
      by: CollectionObserver(willBegin: {}, didRemove: { _ in }) { _ in collections.add(1, ordering: .relaxed) })
    // The observer retains the store, which retains the observer.
    defer { store.observeCollections(by: CollectionObserver(willBegin: {}, didRemove: { _ in }, didEnd: { _ in })) }
    var writers: [Writer] = []
    for number in 0..<60 {
      writers.append(Writer(try store.openWriter(for: BlobKey("new \(number)"), expectedSize: 2 << 20)))
      store.waitForCollection()
    }
    // Another attempt is made after a second, and no machine needs a second for each of these writers.
    #expect(collections.load(ordering: .relaxed) < 50)
  }

  /// Y3b: a file that is not a record does not count as replaced space.
  @Test func aForeignFileMakesNoRoom() throws {
    let store = try store(size: 20 << 20)
    try store.store(payload(19 << 20), for: "locked", ttl: .seconds(10_000), locks: .one)
    store.waitForCollection()
    try cache.makeDirectory("ne/new")
    expect(.limitReached) { _ = try store.openWriter(for: "new", expectedSize: 18 << 20) }
    #expect(try cache.files() == ["lo/locked"])
  }

  /// Y4b: the free space of the volume is checked when blocks are reserved, and as the blob grows.
  @Test(arguments: [true, false]) func theVolumeIsLookedAt(isExpected: Bool) throws {
    let store = try store(size: 1 << 30, files: trace.files) { $0.limits.freeSpaceFloor = 1 }
    try store.store(payload(1), for: "key")
    let before = trace.count(.volumeStatus)
    var writer = try store.openWriter(for: "new", expectedSize: isExpected ? 128 << 20 : nil)
    if !isExpected { for _ in 0..<65 { try writer.append(Data(count: 1 << 20)) } }
    #expect(trace.count(.volumeStatus) > before)
    writer.discard()
  }
}

/// A box for a noncopyable writer, so that an array can store it.
private final class Writer {
  private let writer: BlobWriter
  init(_ writer: consuming BlobWriter) { self.writer = writer }
}
