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
    #else
      raw.st_ctim = time
    #endif
    return Stat(rawValue: raw)
  }

  @Test(arguments: [
    (0, 0, 0), (1_700_000_000, 999_999_999, 1_700_000_000_999_999_999), (-1, 5, -999_999_995),
    (Int.max, 0, Int64.max), (Int.min, 999_999_999, Int64.min),
  ])
  func changeTimesBeyondTheTypeAreHeldAtItsEnds(seconds: Int, nanoseconds: Int, expected: Int64) {
    #expect(status(changedAt: timespec(tv_sec: seconds, tv_nsec: nanoseconds)).changeNanoseconds == expected)
  }
}
