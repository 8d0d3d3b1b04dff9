import BlobCacheRemote
import Foundation
import Synchronization

@testable import BlobCache

/// A cache in a temporary directory, which represents another machine.
final class Machine: Sendable {
  let cache: BlobCache
  private let directory: URL

  /// - Parameter change: Changes the tier, whose deadlines tolerate slow machines.
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

final class Counter: Sendable {
  private let count = Atomic(0)

  var value: Int { count.load(ordering: .relaxed) }

  /// - Returns: The count after this increment.
  func increment(by difference: Int = 1) -> Int { count.add(difference, ordering: .relaxed).newValue }
}
