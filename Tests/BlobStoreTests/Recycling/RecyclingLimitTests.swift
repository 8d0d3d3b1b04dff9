#if os(Linux)
  import BlobRecord
  import BlobStore
  import Locks
  import Posix
  import Synchronization
  import SystemPackage
  import TestSupport
  import Testing

  /// Spec/Semantics.md, M5: how stores enforce the limits if files are recycled.
  @Suite struct RecyclingLimitTests {
    let cache: Cache
    /// The number of files that were created and published.
    private let filesMade = CallCount()

    init() throws { cache = try Cache() }

    private func store(limit: Int64, _ recycling: BlobStore.Recycling, evictionTarget: Double = 0.9) throws -> BlobStore
    {
      let filesMade = filesMade
      let files = Files { call, _ in
        if call == .publication { filesMade.add(1) }
        return nil
      }
      return try cache.store(files: files) {
        $0.limits.size = limit
        $0.recycling = recycling
        $0.limits.evictionTarget = evictionTarget
        $0.limits.collectsOnStore = true
      }
    }

    /// Stores records of 100 bytes, one second apart, and waits for the collections.
    private func store(_ keys: Range<Int>, in store: BlobStore) throws {
      for key in keys {
        try store.store(payload(36), for: "\(key) key", ttl: .seconds(1_000_000))
        store.waitForCollection()
        cache.clock.advance(by: 1)
      }
    }

    /// The first collection evicts down to nine tenths. Later evictions remove the known next victims in portions of
    /// a quarter of the bin, by bytes or files, if this suffices for the limit.
    @Test(
      arguments: [
        (.bounded(bytes: 6000, files: 1000), 98_600), (.bounded(bytes: 1 << 20, files: 60), 98_600),
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
      // The oldest records were evicted.
      let left = try store.records().compactMap { $0.key?.string.split(separator: " ").first.flatMap { Int($0) } }
      #expect(left.sorted() == Array(((1102 - left.count)..<1102)))
    }

    /// A cache at its limit overwrites files and creates hardly any, even if a tenth of it does not fit into the bin.
    @Test func filesGoRound() throws {
      let store = try store(limit: 100_000, .bounded(bytes: 4000, files: 1000))
      try self.store(0..<1200, in: store)
      let before = filesMade.value
      #expect(before > 1000)
      try self.store(1200..<2200, in: store)
      #expect(filesMade.value - before < 150)
      #expect(try store.usage().recycledFiles <= 40)
    }

    /// Portions exist only for files that are overwritten. In other configurations, evictions go down to the target.
    @Test(arguments: [BlobStore.RecordFormat.reference, .checksummed])
    func withoutRecyclingNoPortionsAreEvicted(format: BlobStore.RecordFormat) throws {
      let store = try cache.store {
        $0.limits.size = 100_000
        $0.recycling = .bounded(bytes: 2000, files: 1000)
        $0.limits.collectsOnStore = true
        $0.format = format
        if format == .checksummed { $0.durability = .barrier }
      }
      try self.store(0..<1102, in: store)
      #expect(try store.usageEstimate()?.bytes == 90_000)
      #expect(try store.statistics().evictions == 1)
    }

    /// If nearly all records are locked, no walk ahead finds enough victims, so it is not repeated.
    @Test func looksAheadInVainAreNotRepeated() throws {
      let walks = CallCount()
      let store = try cache.store(
        files: Files { call, path in
          if call == .openDirectory, path.path.string.hasSuffix("/lo") { walks.add(1) }
          return nil
        }
      ) {
        $0.limits.size = 100_000
        $0.recycling = .bounded(bytes: 20_000, files: 1000)
        $0.limits.evictionTarget = 0.995
        $0.limits.collectsOnStore = true
      }
      for key in 0..<980 { try store.store(payload(36), for: "locked \(key)", locks: .one) }
      let before = walks.value
      try self.store(0..<200, in: store)
      #expect(try store.usage().lockedRecords == 980)
      #expect(walks.value - before < 120)
    }

    /// The next victims are searched before they run out: stores do not wait for a walk, and no walk evicts a tenth.
    @Test func victimsAreFoundAhead() throws {
      let store = try store(limit: 100_000, .bounded(bytes: 20_000, files: 1000), evictionTarget: 0.8)
      try self.store(0..<4000, in: store)
      let statistics = try store.statistics()
      // The pass that found the first victims. Walks ahead are not counted.
      #expect(statistics.passes == 1)
      #expect(statistics.evictions > 45)
      // The first whole collection, and the portions.
      #expect(statistics.evicted == 201 + 50 * statistics.evictions)
    }

    /// Stores continue during a walk ahead: known victims are evicted concurrently, and the limit is never exceeded.
    @Test func victimsGoDuringALookAhead() throws {
      let limit: Int64 = 100_000
      let stores = StoresMeanwhile(in: try cache.store { $0.recycling = .bounded(bytes: 20_000, files: 1000) })
      let store = try cache.store(
        files: Files { call, _ in
          if call == .listDirectory { stores.makeOne() }
          return nil
        }
      ) {
        $0.limits.size = limit
        $0.recycling = .bounded(bytes: 20_000, files: 1000)
        $0.limits.evictionTarget = 0.8
        $0.limits.collectsOnStore = true
      }
      for key in 0..<3000 {
        try store.store(payload(36), for: "\(key) key", ttl: .seconds(1_000_000))
        // Once portions are evicted, all walks are walks ahead. During one, the known victims fill half the bin.
        if try store.statistics().evictions > 0 { stores.begin(100) }
        store.waitForCollection()
        stores.end()
        cache.clock.advance(by: 1)
      }
      #expect(stores.made > 100)
      #expect(stores.mostBytes > limit - 1000)
      #expect(stores.mostBytes < limit + 1000)
    }
  }

  /// Stores by other processes during a collection.
  private final class StoresMeanwhile: Sendable {
    private struct State {
      var left = 0
      var made = 0
      var mostBytes: Int64 = 0
    }

    private let store: BlobStore
    private let state = Lock(State())

    init(in store: BlobStore) { self.store = store }

    var made: Int { state.withLock { $0.made } }
    /// The largest number of bytes in the directory after one of these stores.
    var mostBytes: Int64 { state.withLock { $0.mostBytes } }

    /// Allows `count` more stores.
    func begin(_ count: Int) { state.withLock { $0.left = count } }
    func end() { begin(0) }

    func makeOne() {
      let number: Int? = state.withLock { state in
        guard state.left > 0 else { return nil }
        state.left -= 1
        state.made += 1
        return state.made
      }
      guard let number else { return }
      do {
        try store.store(payload(36), for: "\(number) other", ttl: .seconds(1_000_000))
        let bytes = try store.usageEstimate()?.bytes ?? .max
        state.withLock { $0.mostBytes = max($0.mostBytes, bytes) }
      } catch {
        Issue.record(error)
      }
    }
  }
#endif
