internal import BlobRecord
internal import Synchronization

/// An arrangement that threads share; nil until it is known.
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
