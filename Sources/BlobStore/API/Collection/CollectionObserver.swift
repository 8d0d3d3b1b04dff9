package import BlobRecord
internal import Locks

/// Hears of every collection of a store, also of those that the store starts by itself. A cache in front of it
/// observes.
package struct CollectionObserver: Sendable {
  /// Called before records are looked at, on the thread that makes the collection, which holds no stripe.
  package var willBegin: @Sendable () -> Void
  /// Called for each record file that was removed, on the same thread, after its stripe was released; not in dry runs.
  package var didRemove: @Sendable (CollectedRecord) -> Void
  /// Called when a collection has come to its end, on the same thread, with what it did; not when it has failed.
  package var didEnd: @Sendable (BlobStore.CollectionReport) -> Void

  package init(
    willBegin: @escaping @Sendable () -> Void, didRemove: @escaping @Sendable (CollectedRecord) -> Void,
    didEnd: @escaping @Sendable (BlobStore.CollectionReport) -> Void
  ) {
    self.willBegin = willBegin
    self.didRemove = didRemove
    self.didEnd = didEnd
  }
}

/// A record file that a collection has removed.
package struct CollectedRecord: Sendable {
  package enum Cause: Sendable {
    case expired
    /// For a limit, or a trim's goal.
    case evicted
    case damaged(RecordError)
  }

  package let cause: Cause
  /// nil where the file name does not tell it.
  package let key: BlobKey?
  /// Of the file name.
  package let digest: UInt64
  /// Header and payload, in bytes.
  package let fileSize: Int64
}

/// Where a store and its limits find the observer, which is set after both are made.
final class CollectionObservation: Sendable {
  private let state = Lock<CollectionObserver?>(nil)

  var observer: CollectionObserver? {
    get { state.withLock { $0 } }
    set { state.withLock { $0 = newValue } }
  }
}
