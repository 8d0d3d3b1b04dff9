#if DEBUG
  import BlobRecord
  import BlobStore
  import Foundation
  import TestSupport
  import Testing

  /// Spec/Architecture.md, Invariants: the documented invariants hold between random operations.
  @Suite struct InvariantTests {
    private static let operations = 200
    private static let keys = (0..<12).map { BlobKey("\($0) key") }

    private let cache: Cache

    init() throws { cache = try Cache() }

    @Test(
      arguments: [nil, 60_000] as [Int64?], [BlobStore.Recycling.automatic, .bounded(bytes: 20_000, files: 5), .off])
    func holdBetweenOperations(sizeLimit: Int64?, recycling: BlobStore.Recycling) throws {
      let seed = SeededGenerator.announcedSeed(
        for: "holdBetweenOperations", environment: ProcessInfo.processInfo.environment)
      var generator = SeededGenerator(seed: seed)
      let store = try cache.store {
        $0.limits.size = sizeLimit
        $0.recycling = recycling
      }
      for _ in 0..<Self.operations {
        try perform(on: store, &generator)
        try store.checkInvariants()
      }
      _ = try store.removeAll(.all)
      try store.checkInvariants()
    }

    /// Two stores, like two processes, share the counters and the bin.
    @Test func holdForTwoStoresOfADirectory() throws {
      let seed = SeededGenerator.announcedSeed(
        for: "holdForTwoStoresOfADirectory", environment: ProcessInfo.processInfo.environment)
      var generator = SeededGenerator(seed: seed)
      let stores = [try cache.store(), try cache.store()]
      for _ in 0..<Self.operations {
        try perform(on: stores[Int.random(in: 0...1, using: &generator)], &generator)
        for store in stores { try store.checkInvariants() }
      }
    }

    private func perform(on store: BlobStore, _ generator: inout SeededGenerator) throws {
      let key = Self.keys.randomElement(using: &generator)!
      switch Int.random(in: 0..<18, using: &generator) {
      case ..<7: try store.store(payload(Int.random(in: 0...9000, using: &generator)), for: key)
      case ..<9: _ = try store.remove(key)
      case ..<11: _ = try store.load(key)
      case 11: _ = try store.lock(key)
      case 12: _ = try store.unlock(key)
      case 13: _ = try store.touch(key)
      case 14: cache.clock.advance(by: Int64.random(in: 0...1000, using: &generator))
      case 15, 16:
        _ = try store.setExtendedData(payload(Int.random(in: 0...4096, using: &generator)), for: key)
      default: try store.collect()
      }
    }
  }
#endif
