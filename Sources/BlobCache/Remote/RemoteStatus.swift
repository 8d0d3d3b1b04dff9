internal import BlobStore
internal import Locks

/// What a cache has to do with its remote tier: its condition, and counts since the cache was opened.
public struct RemoteStatus: Hashable, Sendable, Codable {
  /// Whether the engine is asked.
  public enum Condition: String, CaseIterable, Sendable, Codable {
    case inUse
    /// It has failed, and is left alone for a while.
    case leftAlone
    /// It has failed, and the next request, or one under way, tries it.
    case tried
  }

  /// What messages call the engine.
  public internal(set) var engine = ""
  /// Whether loads ask it.
  public internal(set) var condition = Condition.inUse
  /// Whether stores and removals go there: an engine may answer loads and refuse changes.
  public internal(set) var changeCondition = Condition.inUse
  /// Requests that have ended, well or not: for records and headers, changes, leases and announcements.
  public internal(set) var requests: Int64 = 0
  /// Loads that the engine answered with a blob.
  public internal(set) var hits: Int64 = 0
  /// Loads that it answered with nothing, or with a record that is expired.
  public internal(set) var misses: Int64 = 0
  /// Loads that did not ask, because the engine is left alone.
  public internal(set) var passedOver: Int64 = 0
  /// Requests that failed, of every kind.
  public internal(set) var failures: Int64 = 0
  /// Objects that were no record of their key.
  public internal(set) var damaged: Int64 = 0
  public internal(set) var uploads: Int64 = 0
  public internal(set) var removals: Int64 = 0
  /// Stores that did not reach the engine, because it failed or too many waited.
  public internal(set) var droppedUploads: Int64 = 0
  /// Removals that did not reach it, because too many waited or the cache was closed.
  public internal(set) var droppedRemovals: Int64 = 0
  public internal(set) var uploadedBytes: Int64 = 0
  public internal(set) var loadedBytes: Int64 = 0
  /// Stores and removals that wait or are under way.
  public internal(set) var waitingChanges = 0
  /// Bytes of the stores among them.
  public internal(set) var waitingBytes = 0
}

/// What a cache has had to do with its remote engine: counted here, and in the directory for all processes.
final class RemoteCounts: Sendable {
  private struct State {
    var status = RemoteStatus()
    /// What of it the directory has.
    var told = BlobStore.RemoteTraffic()
  }

  private let state = Lock(State())
  private let store: BlobStore

  init(of store: BlobStore) { self.store = store }

  /// Without conditions and what waits.
  var status: RemoteStatus { state.withLock { $0.status } }

  func change(_ body: (inout RemoteStatus) -> Void) {
    state.withLock { body(&$0.status) }
    tell()
  }

  /// Gives the directory's counters what they do not have yet, if there are counters by now.
  func tell() {
    let news = state.withLock { state in
      let all = state.status.traffic
      defer { state.told = all }
      return all.since(state.told)
    }
    guard news != BlobStore.RemoteTraffic(), !store.count(news) else { return }
    // Before the first store there is no file to count in.
    state.withLock { $0.told = $0.told.since(news) }
  }
}

extension RemoteStatus {
  /// The part of it that a directory counts.
  fileprivate var traffic: BlobStore.RemoteTraffic {
    var traffic = BlobStore.RemoteTraffic()
    (traffic.hits, traffic.misses, traffic.failures) = (hits, misses, failures)
    (traffic.stores, traffic.removals) = (uploads, removals)
    traffic.dropped = droppedUploads + droppedRemovals
    (traffic.bytesLoaded, traffic.bytesStored) = (loadedBytes, uploadedBytes)
    return traffic
  }
}
