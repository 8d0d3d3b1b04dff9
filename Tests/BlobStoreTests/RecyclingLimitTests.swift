#if os(Linux)
  import BlobRecord
  import BlobStore
  import PosixFiles
  import Synchronization
  import SystemPackage
  import TestSupport
  import Testing

  /// Spec/Semantics.md, M5: how stores keep the limits where files are recycled.
  @Suite struct RecyclingLimitTests {
    let cache: Cache
    /// Files that were made and published.
    private let filesMade = Tally()

    init() throws { cache = try Cache() }

    private func store(limit: Int64, _ recycling: BlobStore.Recycling, evictionTarget: Double = 0.9) throws -> BlobStore
    {
      let filesMade = filesMade
      let files = Files { call, _ in
        if call == .publication { filesMade.add(1) }
        return nil
      }
      return try cache.store(files: files) {
        $0.sizeLimit = limit
        $0.recycling = recycling
        $0.evictionTarget = evictionTarget
        $0.collectsOnStore = true
      }
    }

    /// Stores records of 100 bytes, each a second after the one before, and waits for the collections.
    private func store(_ keys: Range<Int>, in store: BlobStore) throws {
      for key in keys {
        try store.store(payload(36), for: "\(key) key", ttl: .seconds(1_000_000))
        store.waitForCollection()
        cache.clock.advance(by: 1)
      }
    }

    /// The first time, a whole collection goes down to nine tenths; after it, what is known to be next goes by portions of
    /// three quarters of the bin, by bytes or files, if that keeps the limit.
    @Test(
      arguments: [
        (.bounded(bytes: 2000, files: 1000), 98_600), (.bounded(bytes: 1 << 20, files: 20), 98_600),
        (.bounded(bytes: 1 << 20, files: 1000), 90_100), (.bounded(bytes: 1, files: 1), 99_300), (.off, 90_000),
      ] as [(BlobStore.Recycling, Int64)])
    func portionsAreEvicted(recycling: BlobStore.Recycling, expected: Int64) throws {
      let limit: Int64 = 100_000
      let store = try store(limit: limit, recycling)
      try self.store(0..<1001, in: store)
      #expect(try store.usageEstimate()?.bytes == limit / 10 * 9)
      try self.store(1001..<1101, in: store)
      #expect(try store.usageEstimate()?.bytes == limit)
      #expect(try store.statistics().evictions == 0)
      try self.store(1101..<1102, in: store)
      #expect(try store.usageEstimate()?.bytes == expected)
      #expect(try store.statistics().evictions == 1)
      // The oldest went.
      let left = try store.records().compactMap { $0.key?.string.split(separator: " ").first.flatMap { Int($0) } }
      #expect(left.sorted() == Array(((1102 - left.count)..<1102)))
    }

    /// A cache that runs at its limit overwrites files and makes hardly any, even where a tenth of it is more than the bin
    /// may hold.
    @Test func filesGoRound() throws {
      let store = try store(limit: 100_000, .bounded(bytes: 4000, files: 1000))
      try self.store(0..<1200, in: store)
      let before = filesMade.value
      #expect(before > 1000)
      try self.store(1200..<2200, in: store)
      #expect(filesMade.value - before < 150)
      #expect(try store.usage().recycledFiles <= 40)
    }

    /// Portions are for files that are overwritten: elsewhere, evictions go down to the target.
    @Test(arguments: [BlobStore.RecordFormat.reference, .checksummed])
    func withoutRecyclingNoPortionsAreEvicted(format: BlobStore.RecordFormat) throws {
      let store = try cache.store {
        $0.sizeLimit = 100_000
        $0.recycling = .bounded(bytes: 2000, files: 1000)
        $0.collectsOnStore = true
        $0.format = format
        if format == .checksummed { $0.durability = .barrier }
      }
      try self.store(0..<1102, in: store)
      #expect(try store.usageEstimate()?.bytes == 90_000)
      #expect(try store.statistics().evictions == 1)
    }

    /// Where nearly all is locked, no look ahead can find enough: it is not made again and again.
    @Test func looksAheadInVainAreNotRepeated() throws {
      let walks = Tally()
      let store = try cache.store(
        files: Files { call, path in
          if call == .openDirectory, path.path.string.hasSuffix("/lo") { walks.add(1) }
          return nil
        }
      ) {
        $0.sizeLimit = 100_000
        $0.recycling = .bounded(bytes: 20_000, files: 1000)
        $0.evictionTarget = 0.995
        $0.collectsOnStore = true
      }
      for key in 0..<980 { try store.store(payload(36), for: "locked \(key)", locked: true) }
      let before = walks.value
      try self.store(0..<200, in: store)
      #expect(try store.usage().lockedRecords == 980)
      #expect(walks.value - before < 120)
    }

    /// The next victims are looked for before they run out: no store that needs room waits for a walk, and none makes one
    /// that evicts a tenth.
    @Test func victimsAreFoundAhead() throws {
      let store = try store(limit: 100_000, .bounded(bytes: 20_000, files: 1000), evictionTarget: 0.8)
      try self.store(0..<4000, in: store)
      let statistics = try store.statistics()
      // The first store's, and the one that found the first victims: looks ahead are none.
      #expect(statistics.passes == 2)
      #expect(statistics.evictions > 15)
      // The first whole collection, and the portions.
      #expect(statistics.evicted == 201 + 150 * statistics.evictions)
    }
  }

  private final class Tally: Sendable {
    private let count = Atomic(0)

    var value: Int { count.load(ordering: .relaxed) }

    func add(_ amount: Int) { count.wrappingAdd(amount, ordering: .relaxed) }
  }
#endif
