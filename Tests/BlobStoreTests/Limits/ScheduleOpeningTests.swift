import BlobStore
import Locks
import SystemPackage
import TestSupport
import Testing

/// A schedule that opens the store of its directory for each pass.
@Suite(.timeLimit(.minutes(30))) struct ScheduleOpeningTests {
  private func firstOutcome(
    _ opening: @escaping @Sendable () throws(BlobStoreError) -> BlobStore
  ) async throws -> CollectionSchedule.Outcome? {
    let (outcomes, reported) = AsyncStream<CollectionSchedule.Outcome>.makeStream()
    let schedule = CollectionSchedule(of: "cache", opening: opening, report: { reported.yield($0) })
    try schedule.start()
    var first: CollectionSchedule.Outcome?
    for await outcome in outcomes {
      first = outcome
      break
    }
    schedule.stop()
    await schedule.stopped()
    return first
  }

  @Test func theStoreIsOpenedOnceForAPass() async throws {
    let cache = try Cache()
    let store = try cache.store()
    try store.store(payload(1), for: "expired", ttl: .seconds(1))
    cache.clock.advance(by: 100)
    let openings = Lock(0)
    let outcome = try await firstOutcome { () throws(BlobStoreError) in
      openings.withLock { $0 += 1 }
      return store
    }
    guard case .finished(let report)? = outcome else { return #expect(Bool(false), "\(String(describing: outcome))") }
    #expect(report.expired == 1)
    #expect(openings.withLock { $0 } == 1)
  }

  /// The time of the last pass is compared to the clock of the store.
  @Test func aPassThatWasMadeLatelyIsSeen() async throws {
    let cache = try Cache()
    let store = try cache.store()
    try store.store(payload(1), for: "key")
    try store.collect()
    let outcome = try await firstOutcome { () throws(BlobStoreError) in store }
    guard case .skippedAsRecent(let last)? = outcome else {
      return #expect(Bool(false), "\(String(describing: outcome))")
    }
    #expect(last == cache.clock.now)
  }

  @Test func aStoreThatCannotBeOpenedIsAFailedPass() async throws {
    let outcome = try await firstOutcome { () throws(BlobStoreError) in try BlobStore(directory: "") }
    guard case .failed(let error)? = outcome else { return #expect(Bool(false), "\(String(describing: outcome))") }
    #expect(error.code == .invalidConfiguration)
  }
}
