internal import BlobCache
internal import BlobRecord
internal import Locks

/// The payloads whose digests were compared with their keys, so that each payload is hashed once.
///
/// Each result applies to one state of a payload, which any change of the key replaces. The table has two halves, and
/// forgets the older one when the newer one is full.
final class ContentChecks: Sendable {
  fileprivate struct Result {
    let stamp: PayloadWatch.Stamp
    let isRight: Bool
  }

  fileprivate struct State {
    var newer: [BlobKey: Result] = [:]
    var older: [BlobKey: Result] = [:]
    var hashes: Int64 = 0
  }

  /// With keys of 80 bytes, both halves together take about 4 MiB.
  private static let limitOfHalf = 8192

  private let state = Lock(State())

  /// Returns whether the payload with this stamp has the digest of its key, or `nil` if that is unknown.
  func result(for key: BlobKey, _ stamp: PayloadWatch.Stamp?) -> Bool? {
    guard let stamp else { return nil }
    return state.withLock { state in
      guard let result = state.newer[key] ?? state.older[key], result.stamp == stamp else { return nil }
      state.add(result, for: key, limit: Self.limitOfHalf)
      return result.isRight
    }
  }

  /// Counts a computed digest. Its result is kept if the payload was read from a known state.
  func add(_ isRight: Bool, for key: BlobKey, _ stamp: PayloadWatch.Stamp?) {
    state.withLock { state in
      state.hashes += 1
      if let stamp { state.add(Result(stamp: stamp, isRight: isRight), for: key, limit: Self.limitOfHalf) }
    }
  }

  /// The number of digests that were computed.
  var hashes: Int64 { state.withLock { $0.hashes } }
}

extension ContentChecks.State {
  fileprivate mutating func add(_ result: ContentChecks.Result, for key: BlobKey, limit: Int) {
    if newer.count >= limit, newer[key] == nil {
      older = newer
      newer = [:]
    }
    newer[key] = result
  }
}

/// A payload that does not have the digest that its key contains.
struct WrongContent: Error {
  let key: BlobKey
}
