import BlobCache
import BlobRecord
import BlobStore
import Foundation
import Locks
import Posix
import TestSupport
import Testing

/// Spec/Semantics.md, X: ranges of large remote objects.
@Suite(.timeLimit(.minutes(10))) struct SliceTests {
  let test: TestCache

  init() throws { test = try TestCache() }

  // MARK: Ranges

  /// X1: against the object in memory, at random, while slices vanish.
  @Test(arguments: [(0, 7), (1, 1), (63, 64), (64, 64), (65, 64), (100_000, 4096), (99_999, 33_333)])
  func rangesAreThoseOfTheObject(sizes: (Int, Int)) async throws {
    let cache = try test.cache()
    let origin = Origin(payload(sizes.0))
    var generator = SeededGenerator(seed: SeededGenerator.announcedSeed(for: "rangesAreThoseOfTheObject"))
    for round in 0..<3 {
      let options = SliceOptions(
        requestSize: [1, sizes.1 * 3, 1 << 20][round], readAhead: [0, 2 * sizes.1, 1 << 20][round])
      let slices = try origin.slices(in: cache, sliceSize: sizes.1, options: options)
      #expect(slices.totalSize == Int64(sizes.0) && slices.key == "film" && slices.validator == "v1")
      for _ in 0..<40 {
        let start = Int.random(in: 0...sizes.0, using: &generator)
        let end = Int.random(in: start...min(sizes.0, start + 5 * sizes.1), using: &generator)
        let range = Int64(start)..<Int64(end)
        #expect(try await slices.read(range) == origin.bytes[start..<end])
        var pieces = Data()
        for try await piece in slices.pieces(of: range) {
          #expect(!piece.isEmpty && piece.count <= sizes.1)
          pieces.append(piece)
        }
        #expect(pieces == origin.bytes[start..<end])
        let count = Int.random(in: 0...(sizes.0 / sizes.1), using: &generator)
        if Bool.random(using: &generator), let key = try await keys(cache).sorted().dropFirst(count).first {
          try await cache.remove(BlobKey(key))
        }
      }
      #expect(try await slices.read(0..<Int64(sizes.0)) == origin.bytes)
    }
    for range in origin.asked { #expect(range.lowerBound % Int64(sizes.1) == 0 && !range.isEmpty) }
  }

  private func keys(_ cache: BlobCache, _ prefix: String = "film@slices/") async throws -> Set<String> {
    var keys: Set<String> = []
    for try await entry in cache.records(prefix: prefix) { if let key = entry.key { keys.insert(key.string) } }
    return keys
  }

  /// X1: what lies there is not fetched again, also by another cache of the directory.
  @Test func whatIsThereIsNotFetched() async throws {
    let origin = Origin(payload(1000))
    let cache = try test.cache()
    #expect(try await origin.slices(in: cache, sliceSize: 100).read(150..<450) == origin.bytes[150..<450])
    #expect(origin.asked == [100..<500])
    #expect(try await origin.slices(in: cache, sliceSize: 100).read(100..<500) == origin.bytes[100..<500])
    try await cache.close()
    let other = try test.cache()
    #expect(try await origin.slices(in: other, sliceSize: 100).read(499..<501) == origin.bytes[499..<501])
    #expect(origin.asked == [100..<500, 500..<600])
    // X8: they are found together, in order, and the object's own key is another blob's.
    #expect(try await keys(other).count == 5)
    #expect(try await keys(other).allSatisfy { $0.hasPrefix("film@slices/") && $0.contains("/0000000") })
    #expect(try await other.load("film") == nil)
    #expect(try await keys(other, "film").count == 6)
  }

  /// X2: neighbours are fetched by one request, of the size that it may have; what is there parts them.
  @Test func neighboursAreFetchedTogether() async throws {
    let origin = Origin(payload(1000))
    let cache = try test.cache()
    let slices = try origin.slices(in: cache, sliceSize: 100, options: SliceOptions(requestSize: 450))
    #expect(try await slices.read(310..<320) == origin.bytes[310..<320])
    #expect(try await slices.read(0..<1000) == origin.bytes)
    #expect(origin.asked == [300..<400, 0..<300, 400..<800, 800..<1000])
  }

  /// X12: what lies outside of the object is an error, and so are sizes that make no slices.
  @Test func badRangesAndSizesAreErrors() async throws {
    let origin = Origin(payload(10))
    let cache = try test.cache()
    let slices = try origin.slices(in: cache, sliceSize: 3)
    for range in [-1..<3, 5..<11, Int64.min..<0, 11..<12] as [Range<Int64>] {
      await expect(.invalidRange) { _ = try await slices.read(range) }
      await expect(.invalidRange) { for try await _ in slices.pieces(of: range) {} }
    }
    for (total, size) in [(-1, 10), (10, 0), (10, -1), (.max, 1 << 20), ((1 << 20) + 1, 1)] as [(Int64, Int)] {
      await expect(.invalidConfiguration) {
        _ = try cache.slices(of: "film", totalSize: total, sliceSize: size, validator: "") { _ in Data() }
      }
    }
    _ = try cache.slices(of: "film", totalSize: 1 << 20, sliceSize: 1, validator: "") { _ in Data() }
    #expect(origin.asked.isEmpty)
    try await cache.close()
    await expect(.closed) { _ = try await slices.read(0..<10) }
    await expect(.closed) { _ = try origin.slices(in: cache, sliceSize: 3) }
  }

  // MARK: Fetching

  /// X4: too few or too many bytes are an error, and nothing is stored.
  @Test(arguments: [0, 299, 301]) func wrongAnswersAreNotStored(count: Int) async throws {
    let cache = try test.cache()
    let slices = try cache.slices(of: "film", totalSize: 1000, sliceSize: 100, validator: "v1") { _ in payload(count) }
    let error = await expect(.sizeMismatch) { _ = try await slices.read(200..<500) }
    #expect(error?.key == "film")
    #expect(try await keys(cache).isEmpty)
  }

  /// X4: a failure goes to all who wait, nothing is stored, and the next read tries again.
  @Test func failuresAreToldToAllAndNotKept() async throws {
    struct Failure: Error {}
    let (calls, latch) = (Counter(), Latch())
    let cache = try test.cache()
    let slices = try cache.slices(of: "film", totalSize: 1000, sliceSize: 100, validator: "v1") { range in
      if calls.increment() > 1 { return payload(range.count) }
      await latch.wait()
      throw Failure()
    }
    let readers = (0..<5).map { number in Task { try await slices.read(0..<Int64(100 + number)) } }
    try await until { slices.fetchWaiterCount >= 5 }
    latch.open()
    for reader in readers { await #expect(throws: Failure.self) { _ = try await reader.value } }
    #expect(try await keys(cache).isEmpty)
    #expect(try await slices.read(0..<100) == payload(100))
  }

  /// X3: each slice is fetched once, however many ask, by whichever handle.
  @Test func oneFetchServesAll() async throws {
    let origin = Origin(payload(1000))
    let cache = try test.cache()
    let latch = Latch()
    origin.hold { await latch.wait() }
    let slices = try origin.slices(in: cache, sliceSize: 100)
    let others = try origin.slices(in: cache, sliceSize: 100)
    let first = Task { try await slices.read(200..<500) }
    try await until { origin.asked.count == 1 }
    let rest = [(250, 300), (0, 1000), (450, 510)].map { start, end in
      Task { try await others.read(start..<end) == origin.bytes[start..<end] }
    }
    try await until { slices.fetchWaiterCount >= 4 }
    latch.open()
    #expect(try await first.value == origin.bytes[200..<500])
    for read in rest { #expect(try await read.value) }
    var counts = [Int](repeating: 0, count: 10)
    for range in origin.asked {
      for index in range.lowerBound / 100..<(range.upperBound / 100) { counts[Int(index)] += 1 }
    }
    #expect(counts == [Int](repeating: 1, count: 10), "\(origin.asked)")
  }

  /// X5: a reader that is cancelled leaves the fetch to the others, and the last one ends it.
  @Test func theLastReaderThatIsCancelledEndsTheFetch() async throws {
    let cache = try test.cache()
    let (begun, ended) = (Counter(), Counter())
    let slices = try cache.slices(of: "film", totalSize: 1000, sliceSize: 100, validator: "v1") { range in
      begun.increment()
      do {
        try await Task.sleep(for: .seconds(600))
      } catch {
        ended.increment()
        throw error
      }
      return payload(range.count)
    }
    let readers = (0..<2).map { _ in Task { try await slices.read(0..<100) } }
    try await until { slices.fetchWaiterCount == 2 && begun.count == 1 }
    readers[0].cancel()
    await #expect(throws: CancellationError.self) { _ = try await readers[0].value }
    #expect(ended.count == 0 && slices.fetchWaiterCount == 1)
    readers[1].cancel()
    await #expect(throws: CancellationError.self) { _ = try await readers[1].value }
    try await until { ended.count == 1 && slices.fetchCount == 0 }
    #expect(begun.count == 1)
    #expect(try await keys(cache).isEmpty)
    // A new one begins anew.
    let another = Task { try await slices.read(0..<100) }
    try await until { begun.count == 2 }
    another.cancel()
    await #expect(throws: CancellationError.self) { _ = try await another.value }
  }

  /// X6: what is ahead is fetched meanwhile, so much and no more.
  @Test func readsAhead() async throws {
    let origin = Origin(payload(2000))
    let cache = try test.cache()
    let slices = try origin.slices(
      in: cache, sliceSize: 100, options: SliceOptions(requestSize: 400, readAhead: 400))
    #expect(try await slices.read(0..<50) == origin.bytes[0..<50])
    try await until { try await keys(cache).count == 5 }
    #expect(Set(origin.asked) == [0..<100, 100..<500])
    // Half of what is ahead is used up, and more is fetched.
    for start in stride(from: 100, to: 300, by: 50) {
      #expect(try await slices.read(Int64(start)..<Int64(start + 50)) == origin.bytes[start..<start + 50])
    }
    try await until { slices.fetchCount == 0 && origin.asked.count == 3 }
    #expect(Set(origin.asked) == [0..<100, 100..<500, 500..<700])
    // A seek, and the end of the object.
    #expect(try await slices.read(1900..<2000) == origin.bytes[1900..<2000])
    #expect(try await slices.read(1750..<1760) == origin.bytes[1750..<1760])
    try await until { try await keys(cache).count == 10 }
    #expect(origin.asked.count == 6)
  }

  /// X7: a receiver that is slow holds the source back.
  @Test func aSlowReceiverHoldsTheSourceBack() async throws {
    let origin = Origin(payload(10_000))
    let cache = try test.cache()
    let slices = try origin.slices(in: cache, sliceSize: 100, options: SliceOptions(requestSize: 300, readAhead: 500))
    var iterator = slices.pieces().makeAsyncIterator()
    #expect(try await iterator.next() == origin.bytes[0..<100])
    try await until { slices.fetchCount == 0 }
    #expect(try #require(origin.asked.map(\.upperBound).max()) <= 800)
    for start in stride(from: 100, to: 10_000, by: 100) {
      #expect(try await iterator.next() == origin.bytes[start..<start + 100])
    }
    #expect(try await iterator.next() == nil)
    #expect(try await iterator.next() == nil)
  }

  // MARK: Versions

  /// X9: with another validator, or other sizes, all slices go, and never meet.
  @Test(arguments: ["validator", "total", "slice"]) func anotherVersionDropsTheSlices(change: String) async throws {
    let cache = try test.cache()
    let old = Origin(payload(1000))
    try await cache.store(payload(5), for: "film@slices2")
    _ = try await old.slices(in: cache, sliceSize: 100).read(0..<1000)
    #expect(try await keys(cache).count == 10)
    let new = Origin(payload(change == "total" ? 1001 : 1000, 2))
    let slices = try new.slices(
      in: cache, sliceSize: change == "slice" ? 101 : 100, validator: change == "validator" ? "v2" : "v1")
    #expect(try await slices.read(0..<10) == new.bytes[0..<10])
    #expect(try await keys(cache).count == 1)
    #expect(try await slices.read(0..<1000) == new.bytes[0..<1000])
    #expect(try await cache.load("film@slices2")?.payload == payload(5))
  }

  /// X9a: a reader of the old version still reads it, and leaves nothing.
  @Test func theOldVersionIsReadAndNotStored() async throws {
    let cache = try test.cache()
    let (old, new) = (Origin(payload(1000)), Origin(payload(1000, 2)))
    let latch = Latch()
    let slices = try old.slices(in: cache, sliceSize: 100)
    _ = try await slices.read(0..<100)
    old.hold { await latch.wait() }
    let read = Task { try await slices.read(100..<200) }
    try await until { old.asked.count == 2 }
    let latest = try new.slices(in: cache, sliceSize: 100, validator: "v2")
    #expect(try await latest.read(0..<300) == new.bytes[0..<300])
    latch.open()
    #expect(try await read.value == old.bytes[100..<200])
    #expect(try await slices.read(200..<400) == old.bytes[200..<400])
    #expect(try await keys(cache).count == 3)
    #expect(try await latest.read(0..<300) == new.bytes[0..<300])
    #expect(new.asked == [0..<300])
  }

  /// X10: removed while they are fetched, slices are answered and not stored.
  @Test func whatIsRemovedMeanwhileIsNotStored() async throws {
    let cache = try test.cache()
    let origin = Origin(payload(1000))
    let latch = Latch()
    let slices = try origin.slices(in: cache, sliceSize: 100)
    _ = try await slices.read(0..<100)
    origin.hold { await latch.wait() }
    let read = Task { try await slices.read(100..<300) }
    try await until { origin.asked.count == 2 }
    try await slices.remove()
    #expect(try await keys(cache, "film").isEmpty)
    latch.open()
    #expect(try await read.value == origin.bytes[100..<300])
    #expect(try await keys(cache).isEmpty)
    #expect(try await slices.read(0..<100) == origin.bytes[0..<100])
    // What says which version is there is back too.
    #expect(try await keys(cache, "film").count == 2)
  }

  /// X10: where nothing can be stored, the error is thrown, or the bytes are answered all the same.
  @Test(arguments: [true, false]) func whatCannotBeStored(answers: Bool) async throws {
    let cache = try test.cache()
    let origin = Origin(payload(1000))
    let slices = try origin.slices(in: cache, sliceSize: 100, options: SliceOptions(answersUnstored: answers))
    _ = try await slices.read(0..<100)
    test.disk.fail(.write, .noSpace)
    let read = Task { try await slices.read(100..<300) }
    if answers {
      #expect(try await read.value == origin.bytes[100..<300])
    } else {
      let error = await #expect(throws: BlobStoreError.self) { _ = try await read.value }
      #expect(error?.errno == .noSpace)
    }
    test.disk.fail(.write, nil)
    #expect(try await slices.read(100..<300) == origin.bytes[100..<300])
    #expect(origin.asked == [0..<100, 100..<300, 100..<300])
  }

  /// X1: a slice that is damaged, or of another size, is fetched anew; the manifest too.
  @Test func damagedSlicesAreFetchedAnew() async throws {
    let cache = try test.cache()
    let origin = Origin(payload(300))
    _ = try await origin.slices(in: cache, sliceSize: 100).read(0..<300)
    for key in try await keys(cache, "film") {
      try test.flipLastByte(of: cache.filePath(for: BlobKey(key)).string.dropRoot(test))
    }
    #expect(try await origin.slices(in: cache, sliceSize: 100).read(0..<300) == origin.bytes)
    #expect(origin.asked == [0..<300, 0..<300])
    for key in try await keys(cache) { try await cache.store(payload(99), for: BlobKey(key)) }
    #expect(try await origin.slices(in: cache, sliceSize: 100).read(0..<300) == origin.bytes)
    #expect(origin.asked.count == 3)
  }

  /// X1: slices expire, and are used, by themselves.
  @Test func slicesExpireByThemselves() async throws {
    let cache = try test.cache()
    let origin = Origin(payload(300))
    let slices = try origin.slices(in: cache, sliceSize: 100, options: SliceOptions(ttl: .seconds(100)))
    _ = try await slices.read(0..<100)
    test.clock.advance(by: 60)
    _ = try await slices.read(100..<200)
    test.clock.advance(by: 60)
    _ = try await slices.read(0..<250)
    #expect(origin.asked.prefix(2) == [0..<100, 100..<200])
    // Two fetches at once.
    #expect(origin.asked.count == 4 && Set(origin.asked.dropFirst(2)) == [0..<100, 200..<300])
  }

  /// X11: slices take no memory in front of the disk.
  @Test func slicesBypassMemory() async throws {
    let cache = try test.cache()
    let origin = Origin(payload(300))
    _ = try await origin.slices(in: cache, sliceSize: 100).read(0..<300)
    for key in try await keys(cache) { #expect(cache.cachedBlob(for: BlobKey(key)) == nil) }
    _ = try await origin.slices(in: cache, sliceSize: 100).read(0..<300)
    for key in try await keys(cache) { #expect(cache.cachedBlob(for: BlobKey(key)) == nil) }
  }

  /// What is let go takes nothing.
  @Test func objectsAreForgotten() async throws {
    let cache = try test.cache()
    let origin = Origin(payload(300))
    do {
      let slices = try origin.slices(in: cache, sliceSize: 100)
      let later = try origin.slices(in: cache, sliceSize: 100, validator: "v2")
      _ = try await later.read(0..<1)
      #expect(cache.slicedObjectCount == 1)
      withExtendedLifetime(slices) {}
    }
    try await until { cache.slicedObjectCount == 0 }
  }

  /// Many readers, with ranges at random, while others remove and cancel.
  @Test func manyReadersAtOnce() async throws {
    let cache = try test.cache()
    let origin = Origin(payload(50_000))
    let slices = try origin.slices(
      in: cache, sliceSize: 1000, options: SliceOptions(requestSize: 3000, readAhead: 4000))
    let seed = SeededGenerator.announcedSeed(for: "manyReadersAtOnce")
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<8 {
        group.addTask {
          var generator = SeededGenerator(seed: seed &+ UInt64(number))
          for _ in 0..<60 {
            let start = Int.random(in: 0..<50_000, using: &generator)
            let end = Int.random(in: start...min(50_000, start + 9000), using: &generator)
            let read = Task { try await slices.read(Int64(start)..<Int64(end)) }
            if Int.random(in: 0..<4, using: &generator) == 0 {
              read.cancel()
              _ = try? await read.value
            } else {
              #expect(try await read.value == origin.bytes[start..<end])
            }
            if Int.random(in: 0..<20, using: &generator) == 0 { try await slices.remove() }
          }
        }
      }
      try await group.waitForAll()
    }
    try await until { slices.fetchCount == 0 }
  }
}

/// A remote object, and what was asked of it.
final class Origin: Sendable {
  let bytes: Data
  private let ranges = Log<Range<Int64>>()
  private let holder = Lock<(@Sendable () async -> Void)?>(nil)

  init(_ bytes: Data) { self.bytes = bytes }

  /// The ranges that were asked for, in their order.
  var asked: [Range<Int64>] { ranges.all }

  /// Has answers wait, from the next on.
  func hold(_ body: (@Sendable () async -> Void)?) { holder.withLock { $0 = body } }

  func slices(
    in cache: BlobCache, sliceSize: Int, validator: String = "v1", options: SliceOptions = SliceOptions()
  ) throws -> CacheSlices {
    try cache.slices(
      of: "film", totalSize: Int64(bytes.count), sliceSize: sliceSize, validator: validator, options: options
    ) { [self] range in
      ranges.append(range)
      if let hold = holder.withLock({ $0 }) { await hold() }
      return bytes[range]
    }
  }
}

extension String {
  /// A path below a test's directory.
  fileprivate func dropRoot(_ test: TestCache) -> String { String(dropFirst(test.root.string.count + 1)) }
}
