import BlobCache
import BlobRecord
import BlobStore
import Foundation
import Locks
import Posix
import TestSupport
import Testing

/// Spec/Semantics.md, Z: ranges of large remote objects.
@Suite(.timeLimit(.minutes(30))) struct SliceTests {
  let test: TestCache

  init() throws { test = try TestCache() }

  // MARK: Ranges

  /// Z1: compares random ranges with the object in memory, while slices are removed.
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
        if Bool.random(using: &generator), let key = try await test.sliceKeys(cache).sorted().dropFirst(count).first {
          try await cache.remove(BlobKey(key))
        }
      }
      #expect(try await slices.read(0..<Int64(sizes.0)) == origin.bytes)
    }
    for range in origin.asked { #expect(range.lowerBound % Int64(sizes.1) == 0 && !range.isEmpty) }
  }

  /// Z1: stored slices are not fetched again, even by another cache of the directory.
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
    // Z8: the slices share a prefix, in order, and the object's own key belongs to another blob.
    #expect(try await test.sliceKeys(other).count == 5)
    #expect(try await test.sliceKeys(other).allSatisfy { $0.hasPrefix("film@slices/") && $0.contains("/0000000") })
    #expect(try await other.load("film") == nil)
    #expect(try await test.sliceKeys(other, "film").count == 6)
  }

  /// Z2: adjacent slices are fetched by one request up to its maximum size; stored slices separate requests.
  @Test func neighboursAreFetchedTogether() async throws {
    let origin = Origin(payload(1000))
    let cache = try test.cache()
    let slices = try origin.slices(in: cache, sliceSize: 100, options: SliceOptions(requestSize: 450))
    #expect(try await slices.read(310..<320) == origin.bytes[310..<320])
    #expect(try await slices.read(0..<1000) == origin.bytes)
    #expect(origin.asked == [300..<400, 0..<300, 400..<800, 800..<1000])
  }

  /// Z12: ranges outside of the object are errors, and so are invalid slice sizes.
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

  /// Z12: sizes near the maximum of integers.
  @Test func theLargestObject() async throws {
    struct Failure: Error {}
    let (asked, cache) = (Log<Range<Int64>>(), try test.cache())
    let slices = try cache.slices(of: "film", totalSize: .max, sliceSize: 1 << 62, validator: "v1") { range in
      asked.append(range)
      throw Failure()
    }
    for range in [Int64.max - 10..<Int64.max, 0..<1, 0..<Int64.max] {
      await #expect(throws: Failure.self) { _ = try await slices.read(range) }
    }
    #expect(asked.all == [1 << 62..<Int64.max, 0..<1 << 62, 0..<1 << 62])
  }

  // MARK: Fetching

  /// Z4: an answer with too few or too many bytes is an error, and is not stored.
  @Test(arguments: [0, 299, 301]) func wrongAnswersAreNotStored(count: Int) async throws {
    let cache = try test.cache()
    let slices = try cache.slices(of: "film", totalSize: 1000, sliceSize: 100, validator: "v1") { _ in payload(count) }
    let error = await expect(.sizeMismatch) { _ = try await slices.read(200..<500) }
    #expect(error?.key == "film")
    #expect(try await test.sliceKeys(cache).isEmpty)
  }

  /// Z4: all waiting reads throw the failure, nothing is stored, and the next read tries again.
  @Test func failuresAreToldToAllAndNotKept() async throws {
    struct Failure: Error {}
    let (calls, latch) = (Counter(), Latch())
    let cache = try test.cache()
    let slices = try cache.slices(of: "film", totalSize: 1000, sliceSize: 100, validator: "v1") { range in
      if calls.increment() > 1 { return payload(range.count) }
      await latch.wait()
      throw Failure()
    }
    let readers = (0..<5).map { _ in Task { try await slices.read(0..<100) } }
    try await until { slices.fetchWaiterCount >= 5 }
    latch.open()
    for reader in readers { await #expect(throws: Failure.self) { _ = try await reader.value } }
    #expect(try await test.sliceKeys(cache).isEmpty)
    #expect(try await slices.read(0..<100) == payload(100))
  }

  /// Z3: each slice is fetched once, however many reads and handles wait for it.
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

  /// Z5: a cancelled read leaves the fetch to the other reads; the cancellation of the last read ends the fetch.
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
    #expect(try await test.sliceKeys(cache).isEmpty)
    // A new read starts a new fetch.
    let another = Task { try await slices.read(0..<100) }
    try await until { begun.count == 2 }
    another.cancel()
    await #expect(throws: CancellationError.self) { _ = try await another.value }
  }

  /// Z6: the next slices are fetched ahead, up to the configured size.
  @Test func readsAhead() async throws {
    let origin = Origin(payload(2000))
    let cache = try test.cache()
    let slices = try origin.slices(
      in: cache, sliceSize: 100, options: SliceOptions(requestSize: 400, readAhead: 400))
    #expect(try await slices.read(0..<50) == origin.bytes[0..<50])
    try await until { try await test.sliceKeys(cache).count == 5 }
    #expect(Set(origin.asked) == [0..<100, 100..<500])
    // When half of the bytes ahead are used, more are fetched.
    for start in stride(from: 100, to: 300, by: 50) {
      #expect(try await slices.read(Int64(start)..<Int64(start + 50)) == origin.bytes[start..<start + 50])
    }
    try await until { slices.fetchCount == 0 && origin.asked.count == 3 }
    #expect(Set(origin.asked) == [0..<100, 100..<500, 500..<700])
    // Reading ahead follows a seek, and stops at the end of the object.
    #expect(try await slices.read(1900..<2000) == origin.bytes[1900..<2000])
    #expect(try await slices.read(1750..<1760) == origin.bytes[1750..<1760])
    try await until { try await test.sliceKeys(cache).count == 10 }
    #expect(origin.asked.count == 6)
  }

  /// Z6: slices ahead that are already stored are neither read nor touched.
  @Test func whatIsThereAheadIsNotRead() async throws {
    let origin = Origin(payload(2000))
    let cache = try test.cache()
    _ = try await origin.slices(in: cache, sliceSize: 100).read(0..<1900)
    let before = try await cache.traffic().hits
    let slices = try origin.slices(
      in: cache, sliceSize: 100, options: SliceOptions(requestSize: 400, readAhead: .max))
    #expect(try await slices.read(0..<50) == origin.bytes[0..<50])
    try await until { origin.asked.count == 2 && slices.fetchCount == 0 }
    #expect(origin.asked == [0..<1900, 1900..<2000])
    // Each of the two lookups reads the slice and the manifest.
    #expect(try await cache.traffic().hits - before <= 4)
  }

  /// Z7: a slow receiver slows down the source.
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
}
