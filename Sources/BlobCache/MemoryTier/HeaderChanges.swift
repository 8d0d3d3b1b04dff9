internal import Locks

/// Counts changes of headers by this process's caches: generations tell of payloads only.
///
/// A reader that keeps a record looks afterwards if the header was changed meanwhile. A change is counted before it
/// looks for kept records. So one of the two finds the other.
final class HeaderChanges: Sendable {
  struct Stamp: Equatable, Sendable {
    fileprivate let value: UInt32
  }

  private static let slotCount = 256
  private let counts = Lock([UInt32](repeating: 0, count: HeaderChanges.slotCount))

  func stamp(of digest: UInt64) -> Stamp { counts.withLock { Stamp(value: $0[Self.slot(digest)]) } }

  func note(_ digest: UInt64) { counts.withLock { $0[Self.slot(digest)] &+= 1 } }

  private static func slot(_ digest: UInt64) -> Int { Int(digest % UInt64(slotCount)) }
}
