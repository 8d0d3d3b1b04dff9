import PosixFiles
import SystemPackage
import Testing

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
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

  /// Milliseconds after which a further change has another time.
  @Test(arguments: [
    (5_000_000_001, 100, false), (5_000_000_001, 101, true), (5_000_000_001, -1, false), (5_000_000_000, 2500, false),
    (5_000_000_000, 2501, true), (-5_000_000_001, 101, true),
  ])
  func timesArePastOnceATickHasGone(time: Int64, milliseconds: Int64, isPast: Bool) {
    let now = time + milliseconds * 1_000_000
    #expect(Stat.isPast(time, at: now) == isPast)
    #expect(Stat.isSurelyPast(time, at: now) == (isPast && time % 1_000_000_000 != 0))
  }

  @Test func timesFarFromEachOtherDoNotOverflow() {
    #expect(!Stat.isPast(.min, at: .max))
    #expect(!Stat.isPast(.max, at: .min))
  }
}
