import BlobCacheRemote
import Foundation
import Synchronization

@testable import BlobCache

/// A cache in a directory of its own, as another machine has it.
final class Machine: Sendable {
  let cache: BlobCache
  private let directory: URL

  /// - Parameter change: of the tier, whose deadlines a slow machine keeps.
  init(_ engine: any RemoteEngine, namespace: String, _ change: (inout RemoteTier) -> Void = { _ in }) throws {
    directory = FileManager.default.temporaryDirectory.appending(path: "machine-\(UUID().uuidString)")
    var tier = RemoteTier(engine, namespace: RemoteNamespace(namespace))
    tier.writing = .through
    tier.deadlines.firstByte = .seconds(60)
    tier.deadlines.progress = .seconds(60)
    tier.deadlines.change = .seconds(60)
    tier.deadlines.answer = .seconds(240)
    tier.jitter = { 1 }
    change(&tier)
    var configuration = BlobCache.Configuration()
    configuration.remote = tier
    configuration.store.packing = .upTo(8192)
    cache = try BlobCache(directory: FilePath(directory.path), configuration: configuration)
  }

  deinit { try? FileManager.default.removeItem(at: directory) }
}

/// How often something has happened.
final class Counter: Sendable {
  private let count = Atomic(0)

  var value: Int { count.load(ordering: .relaxed) }

  /// - Returns: the count with this time.
  func increment(by difference: Int = 1) -> Int { count.add(difference, ordering: .relaxed).newValue }
}
