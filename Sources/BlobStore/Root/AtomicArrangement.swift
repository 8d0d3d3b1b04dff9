internal import BlobRecord
internal import Synchronization

struct AtomicArrangement: ~Copyable, Sendable {
  private let number = Atomic<UInt8>(0)

  var value: RecordArrangement? {
    switch number.load(ordering: .relaxed) {
    case 1: .prefix
    case 2: .spread
    case 3: .flat
    default: nil
    }
  }

  borrowing func set(_ arrangement: RecordArrangement) {
    let new: UInt8 =
      switch arrangement {
      case .prefix: 1
      case .spread: 2
      case .flat: 3
      }
    number.store(new, ordering: .relaxed)
  }
}

struct AtomicPacking: ~Copyable, Sendable {
  /// The bound, which is 0 for `off` and negative until it is known.
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
