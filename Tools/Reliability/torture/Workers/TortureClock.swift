internal import BlobRecord

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// The time of a run: the machine's monotonic clock, which all processes share. The store's seconds are derived from
/// it and are short, so that records expire during the run.
struct TortureClock: Sendable {
  /// The start of the run, in nanoseconds.
  var start: UInt64
  /// The real nanoseconds in one second of the store.
  var secondLength: UInt64

  /// The store's Unix time at the start of a run.
  static let firstSecond: UInt32 = 1_700_000_000

  static var nanoseconds: UInt64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return UInt64(now.tv_sec) * 1_000_000_000 + UInt64(now.tv_nsec)
  }

  func second(at nanoseconds: UInt64) -> UInt32 {
    Self.firstSecond + UInt32(truncatingIfNeeded: (max(nanoseconds, start) - start) / secondLength)
  }

  var now: UnixTime { UnixTime(seconds: Int64(second(at: Self.nanoseconds))) }

  static func sleep(milliseconds: Int) {
    usleep(UInt32(milliseconds) * 1000)
  }
}
