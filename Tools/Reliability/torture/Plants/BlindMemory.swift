internal import BlobRecord
internal import Locks

/// The loaded values of a worker's threads. The missing check of the generation is a planted fault.
final class BlindMemory: Sendable {
  struct Entry: Sendable {
    var value: UInt64
    /// The last second before the record expires.
    var deadline: Int64
  }

  private let entries = Lock<[Int: Entry]>([:])

  func entry(_ key: Int) -> Entry? { entries.withLock { $0[key] } }

  func put(_ entry: Entry, for key: Int) { entries.withLock { $0[key] = entry } }
}
