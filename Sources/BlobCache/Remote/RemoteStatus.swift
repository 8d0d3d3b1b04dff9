internal import BlobStore
internal import Locks

/// The condition of a cache's remote tier, and counts since the cache was opened.
public struct RemoteStatus: Hashable, Sendable, Codable {
  /// The condition of the circuit breaker.
  public enum Condition: String, CaseIterable, Sendable, Codable {
    case inUse
    /// The engine has failed, and requests skip it for a while.
    case leftAlone
    /// The engine has failed, and the next request, or one in progress, tries it.
    case tried
  }

  /// The engine's name in messages.
  public internal(set) var engine = ""
  /// The condition for loads.
  public internal(set) var condition = Condition.inUse
  /// The condition for stores and removals, because an engine may answer loads and refuse changes.
  public internal(set) var changeCondition = Condition.inUse
  /// The number of finished requests, successful or not: for records, headers, changes, leases and announcements.
  public internal(set) var requests: Int64 = 0
  /// The number of loads that the engine answered with a blob.
  public internal(set) var hits: Int64 = 0
  /// The number of loads for which the engine had no record or an expired one, or which it did not allow.
  public internal(set) var misses: Int64 = 0
  /// The number of loads that skipped the engine because the circuit breaker was open.
  public internal(set) var passedOver: Int64 = 0
  /// The number of failed requests of every kind, except for loads that the engine did not allow.
  public internal(set) var failures: Int64 = 0
  /// The number of requests that the engine did not allow for their object.
  public internal(set) var forbidden: Int64 = 0
  /// The number of objects that were not a valid record of their key.
  public internal(set) var damaged: Int64 = 0
  public internal(set) var uploads: Int64 = 0
  public internal(set) var removals: Int64 = 0
  /// The number of stores that did not reach the engine, because it failed or too many were waiting.
  public internal(set) var droppedUploads: Int64 = 0
  /// The number of removals that did not reach the engine, because too many were waiting or the cache was closed.
  public internal(set) var droppedRemovals: Int64 = 0
  public internal(set) var uploadedBytes: Int64 = 0
  public internal(set) var loadedBytes: Int64 = 0
  /// The number of stores and removals that wait or are in progress.
  public internal(set) var waitingChanges = 0
  /// The size of the waiting stores in bytes.
  public internal(set) var waitingBytes = 0
}

/// The counters of a cache's remote engine, kept here and in the directory, where all processes add to them.
final class RemoteCounts: Sendable {
  private struct State {
    var status = RemoteStatus()
    /// The part that was already added to the directory's counters.
    var told = BlobStore.RemoteTraffic()
  }

  private let state = Lock(State())
  private let store: BlobStore

  init(of store: BlobStore) { self.store = store }

  var status: RemoteStatus { state.withLock { $0.status } }

  func change(_ body: (inout RemoteStatus) -> Void) {
    state.withLock { body(&$0.status) }
    tell()
  }

  /// Adds the counts since the last call to the directory's counters, if these exist.
  func tell() {
    let news = state.withLock { state in
      let all = state.status.traffic
      defer { state.told = all }
      return all.since(state.told)
    }
    guard news != BlobStore.RemoteTraffic(), !store.count(news) else { return }
    // The counters' file is created by the first store, so these counts are added later.
    state.withLock { $0.told = $0.told.since(news) }
  }
}

extension RemoteStatus {
  fileprivate var traffic: BlobStore.RemoteTraffic {
    var traffic = BlobStore.RemoteTraffic()
    (traffic.hits, traffic.misses, traffic.failures) = (hits, misses, failures)
    (traffic.stores, traffic.removals) = (uploads, removals)
    traffic.dropped = droppedUploads + droppedRemovals
    (traffic.bytesLoaded, traffic.bytesStored) = (loadedBytes, uploadedBytes)
    return traffic
  }
}
