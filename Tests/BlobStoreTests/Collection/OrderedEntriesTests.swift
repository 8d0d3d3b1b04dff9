import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, C9: passes that are cut short continue where the last one stopped, without skipping entries.
/// Names with the same digest share one position of the order.
@Suite struct OrderedEntriesTests {
  private static let names =
    [CollidingKeys.first, CollidingKeys.second].map(\.string) + (0..<20).map { "name\($0)" }
  private static let digest = NameDigest.digest(ofFileName: CollidingKeys.first.string)

  /// Each entry is visited once, for any size of the batches and any start of the order.
  @Test(arguments: [1, 2, 3, 5, 8, 21, 22, 23, 65_536], [0, digest - 1, digest, digest + 1, .max] as [UInt64])
  func everyEntryIsMetOnce(batchCount: Int, start: UInt64) throws {
    let temporary = try TemporaryDirectory()
    for name in Self.names { try Data().write(to: temporary.url(name)) }
    guard let directory = try Directory(at: temporary.path, files: Files()) else { throw Errno.noSuchFileOrDirectory }
    var entries = OrderedEntries(from: start, batchCount: batchCount)
    var met: [String] = []
    while let entry = try entries.next(of: directory) { met.append(entry.name) }
    #expect(met.sorted() == Self.names.sorted())
    // The entries are in the order of their digests, cyclically from the start.
    let distances = met.map { NameDigest.digest(ofFileName: $0) &- start }
    #expect(distances == distances.sorted())
  }

  /// A batch contains all names with the same digest, however many they are.
  @Test func aPassThatIsCutShortBetweenTwoOfOneDigestPassesOverNone() throws {
    let cache = try Cache()
    let store = try cache.store { $0.layout.separatesDirectories = false }
    let keys = Self.names.map { BlobKey($0) }
    for key in keys { try store.store(payload(5), for: key, ttl: .seconds(1)) }
    cache.clock.advance(by: 10)
    // Each pass advances by one position of the order.
    var expired: Int64 = 0
    for _ in 1..<keys.count {
      let report = try store.collect(BlobStore.CollectionOptions(maximumTime: .zero))
      #expect((1...2).contains(report.expired))
      expired += report.expired
    }
    #expect(expired == Int64(keys.count))
    #expect(try store.usage().records == 0)
  }

  /// A dry run visits all records of a digest, so that it can tell visited records from the others.
  @Test func aDryRunThatIsCutShortMeetsAllOfADigest() throws {
    let cache = try Cache()
    let store = try cache.store { $0.layout.separatesDirectories = false }
    for key in [CollidingKeys.first, CollidingKeys.second] { try store.store(payload(5), for: key, ttl: .seconds(1)) }
    cache.clock.advance(by: 10)
    let report = try store.collect(BlobStore.CollectionOptions(dryRun: true, maximumTime: .zero))
    #expect(report.wasCutShort && report.expired == 2)
  }
}
