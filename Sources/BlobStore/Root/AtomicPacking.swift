internal import Synchronization

/// A packing that threads share; nil until it is known.
struct AtomicPacking: ~Copyable, Sendable {
  /// The bound, 0 for none; below it until it is known.
  private let number = Atomic(-1)

  var value: BlobStore.Packing? {
    switch number.load(ordering: .relaxed) {
    case ..<0: nil
    case 0: .off
    case let bound: .upTo(bound)
    }
  }

  borrowing func set(_ packing: BlobStore.Packing) { number.store(packing.bound ?? 0, ordering: .relaxed) }
}
