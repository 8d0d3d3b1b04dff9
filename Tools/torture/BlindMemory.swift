internal import BlobRecord
internal import Locks

/// What the threads of a worker have loaded: a small model of a memory tier in front of the store.
///
/// An entry carries the generation that was read before the disk was; it answers while the generation is the same and
/// even, and before its own deadline.
final class MemoryTier: Sendable {
  struct Entry: Sendable {
    var value: UInt64
    /// nil where the generation is not looked at, which is a fault.
    var generation: UInt32?
    /// The last second at which the record has not expired.
    var deadline: Int64
  }

  private let entries = Lock<[Int: Entry]>([:])

  func entry(_ key: Int) -> Entry? { entries.withLock { $0[key] } }

  func put(_ entry: Entry, for key: Int) { entries.withLock { $0[key] = entry } }
}
