import BlobRecord
import BlobStore
import Foundation
import Posix
import TestSupport
import Testing

/// Records are read by different methods, which depend on their size and on the user.
@Suite struct LoadSizeTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// Sizes around the limits at which the method of reading changes.
  private static let turningSizes = [0, 1, 958, 959, 960, 961, 8191, 8192, 8193, 100_000]

  /// L1: the method of reading one record does not affect the next read.
  @Test(arguments: [true, false]) func recordsOfAllSizesAreReadInTurn(isOrdinary: Bool) throws {
    let seed = SeededGenerator.announcedSeed(for: "recordsOfAllSizesAreReadInTurn(\(isOrdinary))")
    var generator = SeededGenerator(seed: seed)
    let store = try cache.store(files: Files(accessTimeTellsOwner: isOrdinary))
    for size in Self.turningSizes { try store.store(payload(size), for: BlobKey("size \(size)"), ttl: .seconds(1000)) }
    for _ in 0..<500 {
      let size = Self.turningSizes.randomElement(using: &generator) ?? 0
      try #require(try store.load(BlobKey("size \(size)"))?.payload == payload(size), "\(size) bytes, seed \(seed)")
    }
  }

  /// P5: if the single read of an ordinary user is short, the record is read again.
  @Test(arguments: [0, 1, 63, 64, 70, 163]) func aShortReadIsMadeAgain(byteCount: Int) throws {
    let plan = FaultPlan()
    let store = try cache.store(files: plan.files(accessTimeTellsOwner: true)) { $0.damagePolicy = .remove }
    try store.store(payload(100), for: "key", ttl: .seconds(1000))
    plan.limitTransfers { $0 == 1 ? byteCount : nil }
    #expect(try store.load("key")?.payload == payload(100))
    #expect(plan.transfers > 1)
  }

  /// L6: the maximum applies even if it is smaller than the first read, or larger than any file.
  @Test(arguments: [true, false], [0, 1, 959, 960, 8192, 8193, .max])
  func noMoreThanTheMaximumIsLoaded(isOrdinary: Bool, maximum: Int64) throws {
    let writer = try cache.store()
    let store = try cache.store(files: Files(accessTimeTellsOwner: isOrdinary)) { $0.limits.payload = maximum }
    for size in Self.turningSizes {
      let key = BlobKey("size \(size)")
      try writer.store(payload(size), for: key, ttl: .seconds(1000))
      if size <= maximum {
        #expect(try store.load(key)?.payload == payload(size))
      } else {
        expect(.payloadTooLarge) { _ = try store.load(key) }
      }
    }
  }
}
