internal import Locks

/// Counts changes of headers by this process's caches: generations tell of payloads only.
///
/// Who has read a record and keeps it looks afterwards whether its header was changed meanwhile; who changes one counts
/// that before it looks for what is kept. So one of both finds the other.
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
