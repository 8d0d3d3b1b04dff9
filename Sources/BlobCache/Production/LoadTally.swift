internal import BlobRecord
internal import BlobStore
internal import Synchronization

/// Tells of a load that may produce, once: a hit or a miss.
///
/// Such a load may look more than once.
final class LoadTally: Sendable {
  private let key: BlobKey
  private let observer: Observer
  private let isTold = Atomic(false)

  init(of key: BlobKey, _ observer: Observer) {
    self.key = key
    self.observer = observer
  }

  /// Counts the load's own look: a hit if the blob is acceptable, else a miss.
  func tell(_ finding: LookupResult, isAcceptable: Bool) {
    tell(isAcceptable ? finding.event(for: key) : finding.miss(for: key))
  }

  /// Tells of a production that the load has joined.
  func tell(_ answer: ProductionTable.Answer, isAcceptable: (Blob) -> Bool) {
    switch (answer.production.look, answer.result) {
    case (.hit(let tier), .success(let blob)) where isAcceptable(blob):
      tell(CacheEvent(.hit(tier), key, byteCount: blob.payload.count))
    // The disk could not be read, which was told.
    case (nil, _): break
    default: tell(CacheEvent(.miss, key))
    }
  }

  private func tell(_ event: @autoclosure () -> CacheEvent) {
    guard !isTold.exchange(true, ordering: .relaxed) else { return }
    observer.tell(event())
  }
}
