import BlobRecord
import BlobStore
import TestSupport
import Testing

/// Spec/ControlFile.md, "Locks": the threads of a process share the lock of a production. Another store has its own
/// locks, like another process.
@Suite struct ProductionLockTests {
  let cache: Cache
  let store: BlobStore
  let other: BlobStore

  init() throws {
    cache = try Cache()
    store = try cache.store()
    other = try cache.store()
  }

  /// The lock is released by the last holder, in any order.
  @Test(arguments: [[0, 1, 2], [2, 1, 0], [1, 2, 0]]) func theLastHolderGivesItBack(order: [Int]) throws {
    let keys = BlobKey.sharingStripe(2)
    let holders = try [keys[0], keys[0], keys[1]].map { try #require(try store.tryProductionLock(of: $0)) }
    for index in order {
      #expect(try other.tryProductionLock(of: keys[0]) == nil)
      #expect(try other.tryProductionLock(of: keys[1]) == nil)
      holders[index]()
    }
    let taken = try #require(try other.tryProductionLock(of: keys[1]))
    #expect(try store.tryProductionLock(of: keys[0]) == nil)
    taken()
    let again = try #require(try store.tryProductionLock(of: keys[0]))
    #expect(try other.tryProductionLock(of: keys[0]) == nil)
    again()
  }

  /// The lock blocks neither changes of the record nor productions of other keys.
  @Test func itConcernsNothingElse() throws {
    let taken = try #require(try store.tryProductionLock(of: "key"))
    try other.store(payload(5), for: "key")
    #expect(try other.lock("key") == .done)
    #expect(BlobKey("other").stripe != BlobKey("key").stripe)
    let its = try #require(try other.tryProductionLock(of: "other"))
    its()
    taken()
  }
}
