import BlobRecord
import Foundation
import TestSupport
import Testing

/// Checks all times and times to live at the limits of their fields against 128-bit arithmetic.
///
/// BLOBCACHE_TEST_LONG=1 adds 200,000 random cases.
@Suite struct ClockBoundaryTests {
  /// The limits of the integers that store times, and their neighbours.
  static let moments: [Int128] = {
    let powers: [Int128] = [0, 1 << 31, 1 << 32, 1 << 62, 1 << 63, 1 << 64]
    let ends = powers + powers.map { -$0 } + [1_700_000_000]
    return Set(ends.flatMap { [$0 - 2, $0 - 1, $0, $0 + 1, $0 + 2] }).sorted()
  }()
  static let stored = moments.compactMap { UInt64(exactly: $0) }
  static let clocks = moments.compactMap { Int64(exactly: $0) }
  static let defaultExpirations: [Int64] = [1, 60, 600, .max]

  /// The expiration rules of Spec/Semantics.md (E1 to E5) in integers that do not overflow.
  struct Judgement: Equatable {
    var lastLiveSecond: Int128
    var isExpired: Bool

    init(ttl: UInt64, updateTime: UInt64, now: Int64, defaultExpiration: Int64) {
      let ceiling = Int128(Int64.max)
      let lifetime = ttl == 0 ? Int128(defaultExpiration) : min(Int128(ttl), ceiling)
      lastLiveSecond = min(min(Int128(updateTime), ceiling) + lifetime, ceiling)
      isExpired = Int128(now) > lastLiveSecond
    }

    init(_ header: RecordHeader, now: Int64, defaultExpiration: Int64) {
      lastLiveSecond = Int128(header.expiry(defaultExpiration: defaultExpiration).seconds)
      isExpired = header.isExpired(at: UnixTime(seconds: now), defaultExpiration: defaultExpiration)
    }
  }

  static func mismatch(ttl: UInt64, updateTime: UInt64, now: Int64, defaultExpiration: Int64) -> String? {
    let header = RecordHeader(ttl: ttl, updateTime: updateTime, payloadSize: 0)
    let found = Judgement(header, now: now, defaultExpiration: defaultExpiration)
    let expected = Judgement(ttl: ttl, updateTime: updateTime, now: now, defaultExpiration: defaultExpiration)
    guard found != expected else { return nil }
    return "ttl \(ttl), updated \(updateTime), now \(now), default \(defaultExpiration): \(found), not \(expected)"
  }

  @Test func everyTimeIsJudgedAsIfNumbersHadNoEnd() {
    var count = 0
    var mismatches: [String] = []
    for ttl in Self.stored {
      for updateTime in Self.stored {
        for defaultExpiration in Self.defaultExpirations {
          let end = Judgement(ttl: ttl, updateTime: updateTime, now: 0, defaultExpiration: defaultExpiration)
          let around = [-1, 0, 1].compactMap { Int64(exactly: end.lastLiveSecond + $0) }
          // Times around the expiration are combined with every default expiration, and other times with one of them.
          for now in around + (defaultExpiration == 600 ? Self.clocks : []) {
            count += 1
            mismatches += [
              Self.mismatch(ttl: ttl, updateTime: updateTime, now: now, defaultExpiration: defaultExpiration)
            ].compactMap { $0 }
          }
        }
      }
    }
    #expect(count >= 10_000)
    #expect(mismatches.prefix(5) == [])
  }

  @Test(.enabled(if: ProcessInfo.processInfo.environment["BLOBCACHE_TEST_LONG"] == "1"))
  func anyTimeIsJudgedAsIfNumbersHadNoEnd() {
    let seed = SeededGenerator.announcedSeed(for: "anyTimeIsJudgedAsIfNumbersHadNoEnd")
    var generator = SeededGenerator(seed: seed)
    // The fields have random magnitudes, because uniform ones would almost always be large.
    func field() -> UInt64 { generator.next() >> UInt64.random(in: 0...63, using: &generator) }
    for _ in 0..<200_000 {
      let (ttl, updateTime) = (field(), field())
      let defaultExpiration = max(1, Int64(clamping: field()))
      let now = Int64(truncatingIfNeeded: field())
      let end = Judgement(ttl: ttl, updateTime: updateTime, now: 0, defaultExpiration: defaultExpiration)
      for moment in [Int128(now), end.lastLiveSecond, end.lastLiveSecond + 1] {
        guard let now = Int64(exactly: moment) else { continue }
        let mismatch = Self.mismatch(
          ttl: ttl, updateTime: updateTime, now: now, defaultExpiration: defaultExpiration)
        #expect(mismatch == nil, "seed \(seed)")
        guard mismatch == nil else { return }
      }
    }
  }
}
