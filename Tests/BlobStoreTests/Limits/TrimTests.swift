import BlobRecord
import BlobStore
import Foundation
import Posix
import Synchronization
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, Q.
@Suite struct TrimTests {
  let cache: Cache
  let store: BlobStore

  init() throws {
    cache = try Cache()
    store = try cache.store()
  }

  /// Stores records of 100 bytes, a second apart, in ascending order.
  private func fill(_ count: Int, locked: (Int) -> Bool = { _ in false }) throws {
    for index in 0..<count {
      try store.store(payload(36), for: name(index), ttl: .seconds(1_000_000), locks: locked(index) ? .one : .none)
      cache.clock.advance(by: 1)
    }
  }

  private func name(_ index: Int) -> BlobKey { BlobKey("\(index % 3) record \(index)") }

  private func left() throws -> Set<BlobKey> { Set(try store.records().compactMap(\.key)) }

  private func names(_ indices: some Sequence<Int>) -> Set<BlobKey> { Set(indices.map(name)) }

  /// Q2: the requested bytes and the remaining records of 20, for any number of remembered records.
  @Test(
    arguments: [(3000, 20), (2000, 20), (1999, 19), (1050, 10), (1000, 10), (99, 0), (0, 0), (-1, 0)]
      as [(Int64, Int)], [1 << 17, 4, 0])
  func oldestGoUntilSoManyBytesAreLeft(goal: (bytes: Int64, left: Int), remembered: Int) throws {
    try fill(20)
    var options = BlobStore.CollectionOptions()
    options.rememberedRecords = remembered
    let report = try store.trim(to: .byteCount(goal.bytes), options)
    #expect(report.evicted == Int64(20 - goal.left))
    #expect(report.bytesAfter == Int64(100 * goal.left))
    #expect(try left() == names((20 - goal.left)..<20))
  }

  /// Q2.
  @Test(arguments: [(30, 20), (20, 20), (7, 7), (0, 0), (.min, 0)] as [(Int64, Int)])
  func oldestGoUntilSoManyRecordsAreLeft(goal: Int64, expected: Int) throws {
    try fill(20)
    let report = try store.trim(to: .recordCount(goal))
    #expect(report.evicted == Int64(20 - expected))
    #expect(report.recordsAfter == Int64(expected))
    #expect(try left() == names((20 - expected)..<20))
  }

  /// Q3.
  @Test func whatWasUpdatedBeforeATimeGoes() throws {
    let start = cache.now
    try fill(20)
    let report = try store.trim(to: .updatedSince(UnixTime(seconds: start + 12)))
    #expect(report.evicted == 12)
    #expect(report.bytesFreed == 1200)
    #expect(report.recordsAfter == 8)
    #expect(try left() == names(12..<20))
    #expect(try store.trim(to: .updatedSince(UnixTime(seconds: .min))).evicted == 0)
    #expect(try store.trim(to: .updatedSince(UnixTime(seconds: .max))).evicted == 8)
  }

  /// Q3.
  @Test func whatIsLargerGoes() throws {
    for size in [0, 9, 10, 11, 5000] { try store.store(payload(size), for: BlobKey("of \(size)")) }
    #expect(try store.trim(to: .payloads(upTo: 10)).evicted == 2)
    #expect(try left() == ["of 0", "of 9", "of 10"])
    #expect(try store.trim(to: .payloads(upTo: -1)).evicted == 2)
    #expect(try left() == ["of 0"])
  }

  /// Q4.
  @Test(
    arguments: [.byteCount(0), .recordCount(0), .updatedSince(UnixTime(seconds: .max)), .payloads(upTo: 0)]
      as [BlobStore.TrimGoal])
  func lockedRecordsStay(goal: BlobStore.TrimGoal) throws {
    try fill(10) { $0.isMultiple(of: 2) }
    let report = try store.trim(to: goal)
    #expect(report.evicted == 5)
    #expect(report.recordsAfter == 5)
    #expect(try left() == names(stride(from: 0, to: 10, by: 2)))
  }

  /// Q1: expired records are removed first, although they are newer than all others.
  @Test func whatHasExpiredGoesFirst() throws {
    try fill(5)
    for index in 0..<5 { try store.store(payload(36), for: BlobKey("brief \(index)"), ttl: .seconds(1)) }
    cache.clock.advance(by: 2)
    let report = try store.trim(to: .recordCount(4))
    #expect(report.expired == 5)
    #expect(report.evicted == 1)
    #expect(try left() == names(1..<5))
  }

  /// Q1: the limits of the configuration remain in force.
  @Test func aGoalThatIsReachedDoesNotSuspendTheLimits() throws {
    try fill(20)
    let limited = try cache.store { $0.limits.count = 10 }
    #expect(try limited.trim(to: .byteCount(1 << 20)).recordsAfter == 9)
    #expect(try limited.trim(to: .recordCount(5)).recordsAfter == 5)
  }

  @Test func aDryRunRemovesNothing() throws {
    try fill(10)
    for goal in [.byteCount(350), .updatedSince(UnixTime(seconds: cache.now - 3))] as [BlobStore.TrimGoal] {
      let report = try store.trim(to: goal, BlobStore.CollectionOptions(dryRun: true))
      #expect(report.evicted == 7)
      #expect(report.recordsAfter == 3)
      #expect(try left().count == 10)
    }
  }

  @Test func aTrimThatIsStoppedLeavesTheRest() throws {
    try fill(10)
    var options = BlobStore.CollectionOptions()
    let asked = Tally(0)
    options.isStopped = { asked.add(1) > 4 }
    let report = try store.trim(to: .payloads(upTo: 0), options)
    #expect(report.wasStopped)
    #expect(report.evicted > 0)
    #expect(try left().count == 10 - Int(report.evicted))
  }

  /// Q5: the record becomes younger, smaller, or locked after the walk has visited it.
  @Test(arguments: ["touch", "store", "lock"]) func whatHasChangedSinceItWasMetIsJudgedAgain(change: String) throws {
    let trace = CallTrace()
    let cache = cache
    let other = try cache.store()
    try other.store(payload(50), for: "key")
    cache.clock.advance(by: 100)
    let store = try cache.store(files: trace.files)
    trace.onCall { call, path in
      guard call == .close, path.string.hasSuffix("/key") else { return nil }
      trace.onCall { call, _ in
        guard call == .takeStripe else { return nil }
        trace.onCall(nil)
        #expect(throws: Never.self) {
          switch change {
          case "touch": try other.touch("key")
          case "lock": try other.lock("key")
          default: try other.store(payload(1), for: "key")
          }
        }
        return nil
      }
      return nil
    }
    let goal: BlobStore.TrimGoal =
      change == "store" ? .payloads(upTo: 10) : .updatedSince(UnixTime(seconds: cache.now - 50))
    let report = try store.trim(to: goal)
    #expect(report.evicted == 0)
    #expect(report.recordsAfter == 1)
    #expect(try store.contains("key"))
  }
}

/// A thread-safe counter.
private final class Tally: Sendable {
  private let value: Mutex<Int>
  init(_ value: Int) { self.value = Mutex(value) }
  func add(_ step: Int) -> Int {
    value.withLock {
      $0 += step
      return $0
    }
  }
}
