import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#elseif canImport(Darwin)
  import Darwin
#endif

@Suite struct StatTimeTests {
  private func status(changedAt time: timespec) -> Stat {
    var raw = CInterop.Stat()
    #if canImport(Darwin)
      raw.st_ctimespec = time
      raw.st_mtimespec = time
    #else
      raw.st_ctim = time
      raw.st_mtim = time
    #endif
    return Stat(rawValue: raw)
  }

  @Test(arguments: [
    (0, 0, 0), (1_700_000_000, 999_999_999, 1_700_000_000_999_999_999), (-1, 5, -999_999_995),
    (Int.max, 0, Int64.max), (Int.min, 999_999_999, Int64.min),
  ])
  func timesBeyondTheTypeAreHeldAtItsEnds(seconds: Int, nanoseconds: Int, expected: Int64) {
    let status = status(changedAt: timespec(tv_sec: seconds, tv_nsec: nanoseconds))
    #expect(status.changeNanoseconds == expected)
    #expect(status.modificationNanoseconds == expected)
  }

  /// A time is past once enough milliseconds have passed that a further change would get another time.
  @Test(arguments: [
    (5_000_000_001, 100, false), (5_000_000_001, 101, true), (5_000_000_001, -1, false), (5_000_000_000, 2500, false),
    (5_000_000_000, 2501, true), (-5_000_000_001, 101, true),
  ])
  func timesArePastOnceATickHasGone(time: Int64, milliseconds: Int64, isPast: Bool) {
    let now = time + milliseconds * 1_000_000
    #expect(Stat.isPast(time, at: now) == isPast)
    #expect(Stat.isSurelyPast(time, at: now) == (isPast && time % 1_000_000_000 != 0))
  }

  /// A time is past if the tick is so many nanoseconds later that a further change would get another time.
  @Test(arguments: [
    (5_000_001_001, 1000, false), (5_000_001_001, 1001, true), (5_000_001_001, -1, false),
    (5_000_001_000, 10_000_000, false), (5_000_001_000, 10_000_001, true), (5_000_000_000, 5_000_000_000, false),
  ])
  func timesArePastOnceATickIsAhead(time: Int64, nanoseconds: Int64, isPast: Bool) {
    #expect(Stat.isSurelyPast(time, atTick: time + nanoseconds) == isPast)
  }

  #if os(Linux)
    /// The kernel stamps a file with the time of its last tick or a later one, even right after a tick.
    @Test func filesAreStampedByTheTick() throws {
      let temporary = try TemporaryDirectory()
      let directory = try openDirectory(at: temporary.path, Files())
      for _ in 0..<20 {
        let start = SystemClock.unixNanoseconds()
        // Waits for the next tick, which comes within ten milliseconds unless the machine is busy.
        var tick = SystemClock.tickNanoseconds()
        while tick <= start {
          try #require(SystemClock.unixNanoseconds() - start < 60_000_000_000, "it stands still")
          tick = SystemClock.tickNanoseconds()
        }
        try Data("content".utf8).write(to: temporary.url("file"))
        let status = try #require(try directory.status(of: "file"))
        #expect(status.modificationNanoseconds >= tick)
      }
    }
  #endif

  @Test func timesFarFromEachOtherDoNotOverflow() {
    #expect(!Stat.isPast(.min, at: .max))
    #expect(!Stat.isPast(.max, at: .min))
    #expect(!Stat.isSurelyPast(.min + 1, atTick: .max))
    #expect(!Stat.isSurelyPast(.max, atTick: .min))
  }
}
