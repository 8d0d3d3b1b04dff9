import BlobRecord
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// Spec/Performance.md: a nonblocking lookup returns the result of an ordinary lookup, or none.
@Suite(.enabled(if: SystemCall.hasCachedLookups)) struct CachedLookupTests: BetweenCalls {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  /// Performs a nonblocking lookup, and returns its result as text and its receipt.
  private func lookUp(
    _ key: BlobKey = "key", touching: Bool = true, tellsAbsence: Bool = true, in store: BlobStore
  ) throws -> (answer: String, receipt: LoadReceipt) {
    try afterLookupOfRoot(of: store) {
      var receipt = LoadReceipt()
      let answer = store.loadIfCached(
        key, at: try store.path(of: key, for: "load"), touching: touching, tellsAbsence: tellsAbsence, &receipt)
      return (Self.word(answer) { "\($0.payload.count) bytes, \($0.payload.hashValue)" }, receipt)
    }
  }

  private func header(_ key: BlobKey = "key", in store: BlobStore) throws -> String {
    try afterLookupOfRoot(of: store) { Self.word(store.headerIfCached(for: key)) { "\($0.payloadSize) bytes" } }
  }

  /// Performs a lookup while the root is not due for a check, so that `trace` contains only its calls.
  ///
  /// The lookup is repeated if the thread was suspended for a second before it, because the check is due then.
  private func afterLookupOfRoot<Answer>(of store: BlobStore, _ lookUp: () throws -> Answer) throws -> Answer {
    for _ in 0..<100 {
      _ = try store.core.root.opened()
      guard store.core.root.openedLately() != nil else { continue }
      _ = trace.take()
      let answer = try lookUp()
      if trace.count(where: { _ in true }) > 0 || store.core.root.openedLately() != nil { return answer }
    }
    return try lookUp()
  }

  private static func word<Value>(_ answer: CachedAnswer<Value>, _ describe: (Value) -> String) -> String {
    switch answer {
    case .known(let value?): describe(value)
    case .known(nil): "absent"
    case .unknown: "unknown"
    }
  }

  private func word(_ payload: Data) -> String { "\(payload.count) bytes, \(payload.hashValue)" }

  private var calls: [SystemCall] { trace.take().map(\.call) }

  private let cachedCalls: [SystemCall] = [.openCached, .status, .readCached, .close]

  // MARK: Lookups with a result

  @Test(arguments: [0, 1, 8192, 8193, 256 << 10]) func aRecordInMemoryIsAnswered(byteCount: Int) throws {
    let store = try tracedStore()
    try store.store(payload(byteCount), for: "key", ttl: .seconds(100))
    let (answer, receipt) = try lookUp(in: store)
    #expect(answer == word(payload(byteCount)))
    let made = calls
    #expect(made == cachedCalls && made.allSatisfy { !$0.mayWait })
    #expect(receipt.generation == (try store.generation(of: "key")))
    #expect(try header(in: store) == "\(byteCount) bytes")
    #expect(calls == cachedCalls)
    #expect(try store.traffic().hits == 1 && store.traffic().bytesServed == Int64(byteCount))
  }

  /// N5c: a store that follows the arrangement of its directory finds the records there.
  @Test(arguments: [nil, .prefix, .spread, .flat] as [RecordArrangement?]) func recordsLieWhereTheDirectorySays(
    arrangement: RecordArrangement?
  ) throws {
    try cache.store { $0.layout.arrangement = arrangement }.store(payload(5), for: "key", ttl: .seconds(100))
    let store = try tracedStore { $0.layout.arrangement = arrangement == .prefix ? nil : arrangement }
    _ = try store.load("key")
    #expect(try lookUp(in: store).answer == word(payload(5)))
    #expect(try header(in: store) == "5 bytes")
  }

  @Test func aLargerRecordIsNotRead() throws {
    let store = try tracedStore()
    try store.store(payload(256 << 10 + 1), for: "key")
    #expect(try lookUp(in: store).answer == "unknown")
    #expect(calls == [.openCached, .status, .close])
    #expect(try store.traffic().hits == 0)
  }

  @Test func aPayloadAboveTheMaximumIsLeftToTheOrdinaryLoad() throws {
    try cache.store().store(payload(100), for: "key")
    let store = try tracedStore { $0.limits.payload = 99 }
    _ = try store.contains("key")
    #expect(try lookUp(in: store).answer == "unknown")
  }

  @Test func whatIsMissingIsAMissWhereThatIsAnAnswer() throws {
    let store = try tracedStore()
    try store.store(payload(1), for: "key", ttl: .seconds(10))
    #expect(try store.contains("kept out") == false)
    #expect(try lookUp("kept out", tellsAbsence: false, in: store).answer == "unknown")
    #expect(try store.traffic().misses == 0)
    #expect(try lookUp("kept out", in: store).answer == "absent")
    #expect(calls == [.openCached])
    #expect(try header("kept out", in: store) == "absent")
    #expect(try store.traffic().misses == 1)
    cache.clock.advance(by: 11)
    #expect(try lookUp(in: store).answer == "absent")
    #expect(try header(in: store) == "absent")
    #expect(try store.traffic().misses == 2)
  }

  /// L2: the caller is responsible for the touch.
  @Test func aTouchIsOwed() throws {
    let store = try tracedStore()
    try store.store(payload(1), for: "key")
    #expect(try lookUp(in: store).receipt.owedTouch == nil)
    cache.clock.advance(by: 1)
    #expect(try lookUp(in: store).receipt.owedTouch == cache.clock.now)
    #expect(calls == cachedCalls)
    #expect(try lookUp(touching: false, in: store).receipt.owedTouch == nil)
    try store.store(payload(1), for: "key", ttl: .seconds(10))
    cache.clock.advance(by: 1)
    #expect(try lookUp(in: store).receipt.owedTouch == nil)
  }

  /// A nonblocking lookup takes no lock, so a held lock does not matter.
  @Test func noLockIsWaitedFor() throws {
    let store = try tracedStore()
    try store.store(payload(1), for: "key")
    let locks = try HeldLocks(in: cache)
    #expect(try locks.take(ControlLayout.lockedBytes))
    #expect(try lookUp(in: store).answer == word(payload(1)))
    #expect(calls == cachedCalls)
    #expect(try header(in: store) == "1 bytes")
  }

  // MARK: Lookups without a result

  @Test func aStoreThatHasOpenedNothingAsksNothing() throws {
    try cache.store().store(payload(1), for: "key")
    let store = try tracedStore()
    var receipt = LoadReceipt()
    let path = try store.path(of: "key", for: "load")
    #expect(Self.word(store.loadIfCached("key", at: path, touching: true, &receipt)) { _ in "" } == "unknown")
    #expect(Self.word(store.headerIfCached(for: "key")) { _ in "" } == "unknown")
    #expect(calls == [])
  }

  @Test func aRootThatIsDueForALookIsNotLookedAt() throws {
    let store = try tracedStore()
    try store.store(payload(1), for: "key")
    trace.wait(milliseconds: 1000)
    _ = trace.take()
    #expect(Self.word(store.headerIfCached(for: "key")) { _ in "" } == "unknown")
    #expect(calls == [])
  }

  @Test func aKeyThatIsNoNameIsLeftToTheOrdinaryLook() throws {
    let store = try tracedStore { $0.layout.naming = .verbatim }
    try store.store(payload(1), for: "key")
    #expect(try header("a/b", in: store) == "unknown")
  }

  /// Without shared memory, changes are not noticed, and the file system may be shared with another host.
  @Test func whereNothingIsSharedNothingIsAnswered() throws {
    trace.onCall { call, _ in call == .map ? .fail(.operationNotSupportedByDevice) : nil }
    let store = try tracedStore()
    try store.store(payload(1), for: "key")
    #expect(try lookUp(in: store).answer == "unknown")
    #expect(calls == [])
  }

  @Test(arguments: Damage.allCases) func damageIsLeftToTheOrdinaryLoad(damage: Damage) throws {
    let store = try tracedStore()
    try store.store(payload(5), for: "key", ttl: .seconds(100))
    try damage.inflict(on: "ke/key", in: cache)
    #expect(try lookUp(in: store).answer == "unknown")
    #expect(try header(in: store) == (damage.showsInHeader ? "unknown" : "5 bytes"))
    try cache.write(cache.bytes("ke/key") + payload(9000), to: "ke/key")
    #expect(try lookUp(in: store).answer == "unknown")
    #expect(try store.traffic().hits == 0)
  }

  @Test(arguments: [8, 9000]) func expiredRecordsAreAbsentAtAnySize(byteCount: Int) throws {
    let store = try tracedStore()
    try store.store(payload(byteCount), for: "key", ttl: .seconds(1))
    cache.clock.advance(by: 2)
    #expect(try lookUp(in: store).answer == "absent")
    var bytes = try cache.bytes("ke/key")
    bytes[10] ^= 1
    try cache.write(bytes, to: "ke/key")
    #expect(try lookUp(in: store).answer == "unknown")
  }

  /// A key's generation changes between the two reads of it.
  @Test(arguments: [SystemCall.openCached, .status, .readCached, .close]) func aChangeMeanwhileIsSeen(
    call: SystemCall
  ) throws {
    let store = try tracedStore()
    let other = try cache.store()
    try store.store(payload(5), for: "key")
    before(call, at: "/key") { try other.store(payload(6), for: "key") }
    #expect(try lookUp(in: store).answer == "unknown")
    before(call, at: "/key") { try other.remove("key") }
    #expect(try lookUp(in: store).answer == "unknown")
    // After a lookup, the kernel caches that the file does not exist.
    #expect(try !store.contains("key"))
    #expect(try lookUp(in: store).answer == "absent")
    #expect(try store.traffic().hits == 0)
  }

  @Test func aForeignFileIsLeftToTheOrdinaryLook() throws {
    let store = try tracedStore()
    try store.store(payload(5), for: "key")
    #expect(try store.remove("key") == .done)
    try check(symlink("/etc/passwd", cache.path("ke/key")), "symlink")
    #expect(try lookUp(in: store).answer == "unknown")
    try check(unlink(cache.path("ke/key")), "unlink")
    try cache.makeDirectory("ke/key")
    #expect(try lookUp(in: store).answer == "unknown")
    #expect(try header(in: store) == "unknown")
  }

  @Test(.enabled(if: getuid() == 0)) func anothersFileIsLeftToTheOrdinaryLook() throws {
    let store = try tracedStore()
    try store.store(payload(5), for: "key")
    try check(chown(cache.path("ke/key"), 54_321, 54_321), "chown")
    #expect(try lookUp(in: store).answer == "unknown")
    #expect(calls == [.openCached, .status, .close])
  }

  @Test func anExposedFileIsLeftToTheOrdinaryLook() throws {
    try cache.makeDirectory("")
    try check(chmod(cache.path(""), 0o755), "chmod")
    let store = try tracedStore()
    try store.store(payload(5), for: "key")
    #expect(try lookUp(in: store).answer == word(payload(5)))
    try check(chmod(cache.path("ke/key"), 0o666), "chmod")
    #expect(try lookUp(in: store).answer == "unknown")
  }

  /// P14: the owner of the subdirectory is determined by its name, which may block.
  @Test func underAStickyRootOthersAskFirst() throws {
    try cache.makeDirectory("")
    try check(chmod(cache.path(""), 0o1777), "chmod")
    let store = try tracedStore()
    try store.store(payload(5), for: "key")
    #expect(try lookUp(in: store).answer == "unknown")
    #expect(calls == [])
  }

  // MARK: Failing calls

  /// One call after the other fails with each error: the nonblocking lookup then has no result.
  @Test(arguments: [SystemCall.openCached, .status, .readCached, .close], FaultTests.errors) func aFailedCallIsNoAnswer(
    call: SystemCall, errno: Errno
  ) throws {
    let store = try tracedStore()
    try store.store(payload(9000), for: "key", ttl: .seconds(100))
    let failed = CallCount()
    trace.onCall { made, _ in
      guard made == call, failed.value == 0 else { return nil }
      failed.add(1)
      return .fail(errno)
    }
    // An interrupted call is repeated, and a failing close loses nothing.
    let isHarmless = errno == .interrupted || call == .close
    #expect(try lookUp(in: store).answer == (isHarmless ? word(payload(9000)) : "unknown"))
    #expect(failed.value == 1)
    failed.add(-1)
    #expect(try header(in: store) == (isHarmless ? "9000 bytes" : "unknown"))
    trace.onCall(nil)
    #expect(try store.load("key")?.payload == payload(9000))
    #expect(openPaths(below: cache.root).allSatisfy { !$0.hasSuffix("/key") })
  }

  /// If a file is only partly cached, a read is short by any number of bytes, also without a checksum that would
  /// detect it.
  @Test(arguments: [BlobStore.RecordFormat.checksummed, .reference]) func aShortReadIsNoAnswer(
    format: BlobStore.RecordFormat
  ) throws {
    let store = try tracedStore { $0.format = format }
    for size in [100, 9000] {
      try store.store(payload(size), for: "key", ttl: .seconds(100))
      // Each byte of the small file, and both sides of each boundary of the large one.
      let counts = size == 100 ? Array(0..<164) : [0, 1, 63, 64, 65, 163, size + 62, size + 63]
      for count in counts {
        trace.onCall { call, _ in call == .readCached ? .transferAtMost(count) : nil }
        #expect(try lookUp(in: store).answer == "unknown", "\(count) of \(size)")
        #expect(try header(in: store) == (count < 64 ? "unknown" : "\(size) bytes"))
      }
    }
    #expect(try store.traffic().hits == 0)
  }

  @Test(
    arguments: [(.openCached, .noFunction), (.openCached, .invalidArgument), (.readCached, .notSupportedOnSocket)]
      as [(SystemCall, Errno)])
  func whatCannotBeDoneIsRemembered(call: SystemCall, errno: Errno) throws {
    let store = try tracedStore()
    try store.store(payload(5), for: "key")
    trace.onCall { made, _ in made == call ? .fail(errno) : nil }
    #expect(try lookUp(in: store).answer == "unknown")
    #expect(calls.contains(call))
    trace.onCall(nil)
    #expect(try lookUp(in: store).answer == "unknown")
    #expect(calls == [])
    #expect(try header(in: store) == "unknown")
    #expect(calls == [])
  }

  @Test func itIsRememberedForAWhile() {
    let looks = CachedLookups()
    let end = 1000 + CachedLookups.pauseMilliseconds
    var answers = [looks.areWorthTrying(at: 0)]
    looks.wereRefused(at: 1000)
    answers += [1000, end - 1, end].map { looks.areWorthTrying(at: $0) }
    #expect(answers == [true, false, false, true])
  }

  // MARK: Uses

  /// C30: a use is counted in the newest file of uses, which an ordinary lookup opens.
  @Test func aUseIsCountedOnceItsFileIsOpen() throws {
    try cache.store { $0.limits.size = 1 << 30 }.store(payload(5), for: "key", ttl: .seconds(100))
    let store = try tracedStore { $0.limits.size = 1 << 30 }
    _ = try store.contains("key")
    #expect(try lookUp(in: store).answer == "unknown")
    #expect(try lookUp(touching: false, in: store).answer == word(payload(5)))
    _ = try store.load("key")
    let open = try #require(try store.core.root.opened())
    let control = try #require(open.openedControlFile)
    let digest = try store.digest(of: "key", for: "load")
    func uses() throws -> Int {
      try #require(store.core.uses.withSketch(of: control, in: open) { $0.uses(of: digest).count })
    }
    let before = try uses()
    #expect(try lookUp(in: store).answer == word(payload(5)))
    #expect(try uses() == before + 1)
    _ = try lookUp(touching: false, in: store)
    #expect(try uses() == before + 1)
    // If the file of uses cannot be opened, lookups still return their result.
    control.setWord(7, at: ControlLayout.usesNumberOffset)
    try FileManager.default.removeItem(atPath: cache.path(".blobcache-uses"))
    #expect(try lookUp(in: store).answer == "unknown")
    _ = try store.load("key")
    #expect(try lookUp(in: store).answer == word(payload(5)))
  }
}
