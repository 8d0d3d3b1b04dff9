internal import BlobStore
internal import Locks

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
