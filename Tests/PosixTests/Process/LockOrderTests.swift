import Locks
import Testing

/// The order in which a thread may take locks.
@Suite struct LockOrderTests {
  typealias Rank = LockOrder.Rank

  @Test(arguments: Rank.allCases, Rank.allCases)
  func aLockIsTakenOnlyUnderThoseOfLowerRanks(held: Rank, next: Rank) {
    var locks = LockOrder.Held()
    #expect(locks.allows(next))
    locks.take(held)
    #expect(
      locks.allows(next)
        == (held.rawValue < next.rawValue || (held == next && [.mutex, .collection, .stripe].contains(next))))
    #expect(locks.allowsWait(for: next) == (held.rawValue < next.rawValue))
    locks.free(held)
    #expect(locks == LockOrder.Held())
  }

  @Test func whatIsFreedLeavesWhatIsStillHeld() {
    var locks = LockOrder.Held()
    locks.take(.stripe)
    locks.take(.mutex)
    locks.take(.mutex)
    locks.free(.mutex)
    #expect(!locks.allows(.stripe))
    locks.free(.mutex)
    #expect(!locks.allows(.touches))
    #expect(locks.allows(.mutex))
  }

  /// A store of many keys holds several stripes.
  @Test func aThreadMayHoldManyStripes() {
    var locks = LockOrder.Held()
    for _ in 0..<256 {
      #expect(locks.allows(.stripe))
      locks.take(.stripe)
    }
    #expect(locks.allows(.mutex) && !locks.allows(.touches) && !locks.allowsWait(for: .stripe))
    for _ in 0..<256 { locks.free(.stripe) }
    #expect(locks == LockOrder.Held())
  }

  /// A caller's closure runs as if its thread held no locks. Otherwise, these calls would trap in debug builds.
  @Test func aCallersCodeStandsOutsideOfTheOrder() {
    let inner = Lock(0, rank: .mutex)
    let outer = Lock(0, rank: .collection)
    inner.withLock { _ in LockOrder.outside { outer.withLock { $0 += 1 } } }
    outer.withLock { _ in inner.withLock { $0 += 1 } }
    #expect(outer.withLock { $0 } == 1)
    #expect(inner.withLock { $0 } == 1)
  }
}
