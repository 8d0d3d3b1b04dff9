import BlobRecord
import BlobStore
import Foundation
import Synchronization
import SystemPackage
import Workbench

/// This library's store with its defaults and a size limit, which bounds the recycling bin. It has no durability, to
/// be comparable with the others.
final class BlobStoreEngine: Engine, Session {
  private let store: BlobStore

  init(directory: FilePath, packing: BlobStore.Packing = .off, packReads: BlobStore.PackReads = .byCalls) throws {
    var configuration = BlobStore.Configuration()
    configuration.packing = packing
    configuration.packReads = packReads
    configuration.durability = .none
    configuration.limits.size = 8 << 30
    // The clock runs ahead, so records must not expire.
    configuration.expiry.defaultTimeToLive = .seconds(Int64.max)
    let clock = HastyClock(configuration.now)
    configuration.now = { clock.next() }
    store = try BlobStore(directory: directory, configuration: configuration)
  }

  func session() -> any Session { self }

  func store(_ entry: Entry) throws { try store.store(entry.payload.bytes, for: entry.key) }

  func fill(_ entry: Entry, notesUses: Bool) throws { try notesUses ? store(entry) : replace(entry) }

  func replace(_ entry: Entry) throws {
    try store.store(entry.payload.bytes, for: entry.key, ttl: .seconds(Int64.max))
  }

  func load(_ entry: Entry) throws -> Data? { try store.load(entry.key)?.payload }

  func loadTouching(_ entry: Entry) throws -> Data? { try store.load(entry.key)?.payload }

  func remove(_ entry: Entry) throws {
    let outcome = try store.remove(entry.key)
    try BenchmarkFailure.require(outcome == .done, "remove of \(entry.name): \(outcome)")
  }
}

/// The system's clock plus a second for each reading, so that each touch has to write.
private final class HastyClock: Sendable {
  private let system: @Sendable () -> UnixTime
  private let lead = Atomic<Int64>(0)

  init(_ system: @escaping @Sendable () -> UnixTime) { self.system = system }

  func next() -> UnixTime {
    system().advanced(bySeconds: lead.wrappingAdd(1, ordering: .relaxed).newValue)
  }
}
