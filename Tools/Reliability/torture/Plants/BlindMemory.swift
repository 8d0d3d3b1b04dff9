internal import BlobRecord
internal import Locks

/// What the threads of a worker have loaded, believed without a look at the generation, which is a fault.
final class BlindMemory: Sendable {
  struct Entry: Sendable {
    var value: UInt64
    /// The last second at which the record has not expired.
    var deadline: Int64
  }

  private let entries = Lock<[Int: Entry]>([:])

  func entry(_ key: Int) -> Entry? { entries.withLock { $0[key] } }

  func put(_ entry: Entry, for key: Int) { entries.withLock { $0[key] = entry } }
}
