internal import CPosix

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// The system's clocks, which are the default of the time parameters in higher layers.
package enum SystemClock {
  /// Returns the Unix time in whole seconds, as of the kernel's last tick: `time(2)`.
  ///
  /// Each memory hit reads it, and the exact clock takes ten times as long.
  package static func unixSeconds() -> Int64 {
    #if canImport(Darwin)
      Int64(time(of: CLOCK_REALTIME).tv_sec)
    #else
      Int64(time(of: CLOCK_REALTIME_COARSE).tv_sec)
    #endif
  }

  package static func unixNanoseconds() -> Int64 {
    nanoseconds(time(of: CLOCK_REALTIME))
  }

  /// Returns the Unix time in nanoseconds, as of the kernel's last tick.
  ///
  /// Linux uses this clock, or one ahead of it, for the times of files (`ktime_get_coarse_real_ts64`). Darwin does
  /// not provide such a clock, and does not need it, because it does not recycle files.
  package static func tickNanoseconds() -> Int64 {
    #if canImport(Darwin)
      unixNanoseconds()
    #else
      nanoseconds(time(of: CLOCK_REALTIME_COARSE))
    #endif
  }

  /// Returns the time of a monotonic clock with a precision of some milliseconds; a call takes a few nanoseconds.
  package static func coarseMilliseconds() -> Int64 {
    #if canImport(Darwin)
      return Int64(clock_gettime_nsec_np(CLOCK_MONOTONIC_RAW_APPROX) / 1_000_000)
    #else
      let now = time(of: CLOCK_MONOTONIC_COARSE)
      return Int64(now.tv_sec) * 1000 + Int64(now.tv_nsec) / 1_000_000
    #endif
  }

  /// Returns the time since an arbitrary start on a monotonic clock.
  package static func monotonic() -> Duration {
    let now = time(of: CLOCK_MONOTONIC)
    return .seconds(Int64(now.tv_sec)) + .nanoseconds(Int64(now.tv_nsec))
  }

  private static func time(of clock: clockid_t) -> timespec {
    var now = timespec()
    // Fails only for invalid clocks and pointers.
    unsafe clock_gettime(clock, &now)
    return now
  }

  private static func nanoseconds(_ time: timespec) -> Int64 {
    Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }

  package static func sleep(microseconds: Int) {
    var duration = timespec(tv_sec: microseconds / 1_000_000, tv_nsec: microseconds % 1_000_000 * 1_000)
    // If a signal interrupts the sleep, the caller tries early.
    unsafe nanosleep(&duration, nil)
  }
}

/// The boot of the running system: data in file mappings that was written under another boot may be lost.
package enum SystemBoot {
  /// Sixteen bytes that are the same in all processes since the system started, or `nil` if they are unknown.
  package static let identifier: SIMD2<UInt64>? = {
    var text = [CChar](repeating: 0, count: 37)
    guard unsafe text.withUnsafeMutableBufferPointer({ unsafe blob_boot_identifier($0.baseAddress!) }) == 0 else {
      return nil
    }
    let digits = text.compactMap { UInt8(exactly: $0).flatMap { Character(UnicodeScalar($0)).hexDigitValue } }
    guard digits.count == 32 else { return nil }
    func word(_ digits: ArraySlice<Int>) -> UInt64 { digits.reduce(0) { $0 << 4 | UInt64($1) } }
    return SIMD2(word(digits[..<16]), word(digits[16...]))
  }()
}
