import BlobRecord
import BlobStore
import Foundation
import TestSupport
import Testing

/// The clock jumps by any amount, forward and back, between any two operations: every answer must equal the result of
/// arithmetic without overflow.
///
/// BLOBCACHE_TEST_LONG=1 makes 200,000 jumps.
@Suite struct ClockJumpTests {
  static let jumps = ProcessInfo.processInfo.environment["BLOBCACHE_TEST_LONG"] == "1" ? 200_000 : 10_000

  @Test(.timeLimit(.minutes(30))) func anyJumpOfTheClockIsSafe() throws {
    let seed = SeededGenerator.announcedSeed(for: "anyJumpOfTheClockIsSafe")
    var run = try ClockJumpRun(seed: seed)
    for number in 0..<Self.jumps {
      let mismatch = try run.step()
      #expect(mismatch == nil, "jump \(number), BLOBCACHE_TEST_SEED=\(seed)")
      guard mismatch == nil else { return }
    }
    print("\(Self.jumps) jumps of the clock, \(run.liveAnswers) of them to where a record was live")
    #expect(run.liveAnswers > Self.jumps / 10 && run.liveAnswers < Self.jumps * 9 / 10)
  }

  /// The test detects an error of a single second.
  @Test func aSecondTooMuchIsFound() throws {
    var run = try ClockJumpRun(seed: 3)
    run.defaultExpiration += 1
    #expect(try (0..<2_000).contains { _ in try run.step() != nil })
  }

  @Test func aSeedReplaysItsJumps() throws {
    func history(_ seed: UInt64) throws -> [String] {
      var run = try ClockJumpRun(seed: seed)
      for _ in 0..<200 { _ = try run.step() }
      return run.history
    }
    #expect(try history(5) == history(5))
    #expect(try history(5) != history(6))
  }
}

/// A store together with the expected headers of its records.
private struct ClockJumpRun {
  private let cache: Cache
  private let store: BlobStore
  private var generator: SeededGenerator
  /// The expected headers of all existing records, expired or not.
  private var records: [String: (refCount: UInt32, ttl: UInt64, updateTime: UInt64)] = [:]
  private(set) var history: [String] = []
  private(set) var liveAnswers = 0
  /// The expected lifetime of records with a TTL of 0.
  var defaultExpiration: Int128 = 600

  private static let keys = ["a", "b", "c"]
  private static let moments: [Int64] =
    ClockJumpRun.neighbours(of: [0, 1 << 31, 1 << 32, -(1 << 31), -(1 << 32)])
    + [.min, .min + 1, .max - 601, .max - 600, .max - 1, .max, 1_700_000_000]
  private static let timesToLive: [Int64] = neighbours(of: [1 << 31, 1 << 32]) + [1, 2, 60, .max - 1, .max]

  private static func neighbours(of values: [Int64]) -> [Int64] { values.flatMap { [$0 - 1, $0, $0 + 1] } }

  init(seed: UInt64) throws {
    cache = try Cache()
    store = try cache.store()
    generator = SeededGenerator(seed: seed)
  }

  /// Moves the clock and performs an operation.
  ///
  /// - Returns: A description of the difference from the expected answer, or `nil` if the answer is correct.
  mutating func step() throws -> String? {
    jump()
    let key = Self.keys.randomElement(using: &generator)!
    let isLive = self.isLive(key)
    if isLive { liveAnswers += 1 }
    let what = Int.random(in: 0..<20, using: &generator)
    history.append("\(what) \(key) at \(cache.now)")
    if history.count > 200 { history.removeFirst(100) }
    switch what {
    case ..<6: return try store(key)
    case ..<9:
      let loaded = try store.load(BlobKey(key)) != nil
      if isLive, let record = records[key], record.ttl == 0, Int128(record.updateTime) < Int128(cache.now) {
        touch(key)
      }
      return difference("load", loaded, isLive) ?? headerDifference(key)
    case ..<12:
      let outcome = try store.touch(BlobKey(key))
      if isLive, records[key]?.ttl == 0 { touch(key) }
      return difference("touch", outcome, isLive ? .done : .notFound) ?? headerDifference(key)
    case ..<14:
      let outcome = try store.lock(BlobKey(key))
      if isLive { records[key]?.refCount += 1 }
      return difference("lock", outcome, isLive ? .done : .notFound) ?? headerDifference(key)
    case ..<18:
      let isLocked = records[key].map { $0.refCount > 0 } ?? false
      let outcome = try store.unlock(BlobKey(key), force: true)
      if isLive { records[key]?.refCount = 0 }
      let expected: BlobStore.Outcome = !isLive ? .notFound : isLocked ? .done : .notLocked
      return difference("unlock", outcome, expected) ?? headerDifference(key)
    default: return try collect()
    }
  }

  /// Moves the clock to any moment, or to within a second of a record's expiry.
  private mutating func jump() {
    guard Int.random(in: 0..<3, using: &generator) > 0,
      let key = Self.keys.filter({ records[$0] != nil }).randomElement(using: &generator)
    else {
      cache.clock.now = UnixTime(seconds: Self.moments.randomElement(using: &generator)!)
      return
    }
    let moment = expiry(key) + Int128(Int.random(in: -1...1, using: &generator))
    cache.clock.now = UnixTime(seconds: Int64(clamping: moment))
  }

  private func expiry(_ key: String) -> Int128 {
    guard let record = records[key] else { return 0 }
    let ceiling = Int128(Int64.max)
    let lifetime = record.ttl == 0 ? defaultExpiration : min(Int128(record.ttl), ceiling)
    return min(min(Int128(record.updateTime), ceiling) + lifetime, ceiling)
  }

  private func isLive(_ key: String) -> Bool {
    guard let record = records[key] else { return false }
    return record.refCount > 0 || Int128(cache.now) <= expiry(key)
  }

  private mutating func touch(_ key: String) { records[key]?.updateTime = UInt64(clamping: cache.now) }

  private mutating func store(_ key: String) throws -> String? {
    let ttl = Bool.random(using: &generator) ? nil : Self.timesToLive.randomElement(using: &generator)
    let locked = Int.random(in: 0..<4, using: &generator) == 0
    try store.store(Data(key.utf8), for: BlobKey(key), ttl: ttl.map { .seconds($0) }, locks: locked ? .one : .none)
    records[key] = (locked ? 1 : 0, UInt64(ttl ?? 0), UInt64(clamping: cache.now))
    return headerDifference(key)
  }

  private mutating func collect() throws -> String? {
    let dead = Self.keys.filter { records[$0] != nil && !isLive($0) }
    let report = try store.collect()
    for key in dead { records[key] = nil }
    // C25: the collection corrects update times that are ahead of the clock.
    for (key, record) in records where Int128(record.updateTime) - Int128(cache.now) > 86_400 { touch(key) }
    return difference("collect", report.expired, Int64(dead.count))
  }

  private func difference<Answer: Equatable>(_ operation: String, _ found: Answer, _ expected: Answer) -> String? {
    found == expected ? nil : "\(operation) at \(cache.now): \(found), not \(expected)"
  }

  private func headerDifference(_ key: String) -> String? {
    do {
      let found = try store.header(for: BlobKey(key)).map { [UInt64($0.refCount), $0.ttl, $0.updateTime] }
      let expected = isLive(key) ? records[key].map { [UInt64($0.refCount), $0.ttl, $0.updateTime] } : nil
      return difference("header", found, expected)
    } catch {
      return "header: \(error)"
    }
  }
}
