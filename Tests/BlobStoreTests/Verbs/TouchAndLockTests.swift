import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, T.
@Suite struct TouchTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// T1.
  @Test func touchSetsTheUpdateTimeOfTimeToLiveZeroToNow() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    cache.clock.advance(by: 600)
    #expect(try store.touch("key") == .done)
    #expect(try cache.header("ke/key").updateTime == UInt64(cache.now))
    cache.clock.advance(by: -100)
    #expect(try store.touch("key") == .done)
    #expect(try cache.header("ke/key").updateTime == UInt64(cache.now))
    let before = try cache.state("ke/key")
    #expect(try store.touch("key") == .done)
    #expect(try cache.state("ke/key") == before)
    #expect(try store.load("key")?.payload == payload(5))
  }

  /// T1: a locked record past its expiry is live.
  @Test func touchRevivesALockedRecord() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key", locks: .one)
    cache.clock.advance(by: 10_000)
    #expect(try store.touch("key") == .done)
    #expect(try store.unlock("key") == .done)
    #expect(try store.contains("key"))
  }

  /// T2.
  @Test func touchLeavesATimeToLiveOfItsOwn() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key", ttl: .seconds(100))
    let before = try cache.state("ke/key")
    cache.clock.advance(by: 100)
    #expect(try store.touch("key") == .done)
    #expect(try cache.state("ke/key") == before)
    cache.clock.advance(by: 1)
    #expect(try store.touch("key") == .notFound)
  }

  /// T2a.
  @Test(arguments: [nil, .seconds(100)] as [Duration?]) func renewalBeginsAnyTimeToLiveAnew(ttl: Duration?) throws {
    let store = try cache.store()
    #expect(try store.renew("key") == .notFound)
    try store.store(payload(5), for: "key", ttl: ttl)
    for _ in 0..<3 {
      cache.clock.advance(by: 100)
      #expect(try store.renew("key") == .done)
      #expect(try cache.header("ke/key").updateTime == UInt64(cache.now))
      let before = try cache.state("ke/key")
      #expect(try store.renew("key") == .done)
      #expect(try cache.state("ke/key") == before)
    }
    #expect(try store.load("key")?.payload == payload(5))
    cache.clock.advance(by: ttl == nil ? 601 : 101)
    #expect(try store.renew("key") == .notFound)
  }

  /// T3.
  @Test func touchFindsNothingAbsentOrExpired() throws {
    let store = try cache.store()
    #expect(try store.touch("key") == .notFound)
    try store.store(payload(5), for: "key")
    #expect(try store.touch("kez") == .notFound)
    cache.clock.advance(by: 601)
    let before = try cache.state("ke/key")
    #expect(try store.touch("key") == .notFound)
    #expect(try cache.state("ke/key") == before)
  }
}

/// Spec/Semantics.md, K.
@Suite struct LockTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// K1.
  @Test func lockCountsAndLeavesTheUpdateTime() throws {
    let store = try cache.store()
    #expect(try store.lock("key") == .notFound)
    try store.store(payload(5), for: "key")
    let stored = UInt64(cache.now)
    cache.clock.advance(by: 600)
    for count in 1...3 as ClosedRange<UInt32> {
      #expect(try store.lock("key") == .done)
      #expect(try cache.header("ke/key").refCount == count)
    }
    #expect(try cache.header("ke/key").updateTime == stored)
    #expect(try store.load("key", touching: false)?.payload == payload(5))
  }

  /// K1.
  @Test func expiredRecordCannotBeLocked() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    cache.clock.advance(by: 601)
    let before = try cache.state("ke/key")
    #expect(try store.lock("key") == .notFound)
    #expect(try cache.state("ke/key") == before)
  }

  /// K2: SPTPersistentCache returns "not found" in this case.
  @Test func lockedRecordPastItsTimeCanBeLockedAgain() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key", ttl: .seconds(1), locks: .one)
    cache.clock.advance(by: 1_000_000)
    #expect(try store.lock("key") == .done)
    #expect(try store.unlock("key") == .done)
    #expect(try store.contains("key"))
    #expect(try store.unlock("key") == .done)
    #expect(try store.contains("key") == false)
  }

  /// K3.
  @Test func lockCountDoesNotOverflow() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    try cache.changeHeader("ke/key") { $0.refCount = .max - 1 }
    #expect(try store.lock("key") == .done)
    let before = try cache.state("ke/key")
    expect(.lockCountOverflow) { try store.lock("key") }
    #expect(try cache.state("ke/key") == before)
    try store.store(payload(6), for: "key", locks: .keepOrOne)
    #expect(try store.header(for: "key")?.refCount == .max)
    #expect(try store.unlock("key") == .done)
    #expect(try store.header(for: "key")?.refCount == .max - 1)
  }

  /// K4.
  @Test func unlockBelowZeroSaysSo() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key", locks: .one)
    #expect(try store.unlock("key") == .done)
    let before = try cache.state("ke/key")
    #expect(try store.unlock("key") == .notLocked)
    #expect(try store.unlock("key", force: true) == .notLocked)
    #expect(try cache.state("ke/key") == before)
    #expect(try cache.header("ke/key").refCount == 0)
  }

  /// K5.
  @Test func forcedUnlockTakesAllLocksOff() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key", locks: .one)
    for _ in 0..<4 { try store.lock("key") }
    #expect(try store.unlock("key", force: true) == .done)
    #expect(try cache.header("ke/key").refCount == 0)
  }

  /// K6.
  @Test func unlockFindsNothingAbsentOrExpired() throws {
    let store = try cache.store()
    #expect(try store.unlock("key") == .notFound)
    try store.store(payload(5), for: "key")
    cache.clock.advance(by: 601)
    #expect(try store.unlock("key") == .notFound)
  }

  /// K7.
  @Test(arguments: Damage.allCases.filter(\.showsInHeader)) func damagedRecordIsNotChanged(damage: Damage) throws {
    let store = try cache.store { $0.damagePolicy = .remove }
    try store.store(payload(5), for: "key", locks: .one)
    try damage.inflict(on: "ke/key", in: cache)
    let before = try cache.snapshot()
    cache.clock.advance(by: 5)
    for change in [{ try store.lock("key") }, { try store.unlock("key") }, { try store.touch("key") }] {
      let error = expect(.damaged) { _ = try change() }
      #expect(error?.recordError?.name == damage.rawValue)
    }
    #expect(try cache.snapshot() == before)
  }

  /// K8, L3: a backup with hard links is not affected by any operation on the cache.
  @Test(arguments: [BlobStore.Durability.none, .barrier, .full]) func otherHardLinksKeepTheirHeader(
    durability: BlobStore.Durability
  ) throws {
    let store = try cache.store { $0.durability = durability }
    try store.store(payload(300_000), for: "key")
    let backup = cache.outside.path.string + "/backup"
    func linkAgain() throws -> [UInt8] {
      try? FileManager.default.removeItem(atPath: backup)  // Absent the first time.
      try check(link(cache.path("ke/key"), backup), "link")
      return try bytes(ofFile: backup)
    }
    for change in [
      { try store.lock("key") }, { try store.unlock("key") }, { try store.lock("key") }, { try store.touch("key") },
    ] {
      let kept = try linkAgain()
      let before = try cache.header("ke/key")
      cache.clock.advance(by: 5)
      #expect(try store.load("key")?.payload == payload(300_000))
      #expect(try cache.state("ke/key")?.links == 2)
      #expect(try change() == .done)
      #expect(try bytes(ofFile: backup) == kept)
      #expect(try cache.header("ke/key") != before)
      #expect(try cache.state("ke/key")?.links == 1)
      #expect(try cache.state("ke/key")?.permissions == 0o600)
      #expect(try store.load("key", touching: false)?.payload == payload(300_000))
    }
    _ = try linkAgain()
    #expect(try store.remove("key") == .done)
    #expect(try fileState(backup)?.links == 1)
    #expect(try cache.files() == [])
  }

  /// K8.
  @Test func failedCopyOfALinkedRecordLeavesIt() throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try store.store(payload(100), for: "key")
    try check(link(cache.path("ke/key"), cache.outside.path.string + "/backup"), "link")
    let before = try cache.snapshot()
    for call in [SystemCall.write, .rename, .read] {
      trace.onCall { made, _ in made == call ? .fail(.noSpace) : nil }
      let error = expect(.fileSystem) { try store.lock("key") }
      #expect(error?.errno == .noSpace)
      #expect(try cache.snapshot() == before)
    }
  }

  /// A record with a second link is copied before it is locked, except if its size exceeds the limit for loads.
  @Test func linkedRecordThatIsTooLargeIsNotCopied() throws {
    try cache.store().store(payload(1000), for: "key")
    try check(link(cache.path("ke/key"), cache.outside.path.string + "/backup"), "link")
    let before = try cache.snapshot()
    let small = try cache.store { $0.limits.payload = 999 }
    expect(.payloadTooLarge) { try small.lock("key") }
    #expect(try cache.snapshot() == before)
  }
}
