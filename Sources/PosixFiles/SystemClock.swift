#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// The machine's clock. Everything above takes time as a parameter; this is what is passed by default.
package enum SystemClock {
  /// Unix time in whole seconds.
  package static func unixSeconds() -> Int64 {
    var now = timespec()
    // Fails only for clocks and pointers that do not exist.
    unsafe clock_gettime(CLOCK_REALTIME, &now)
    return Int64(now.tv_sec)
  }

  /// Lets the thread sleep for about so long.
  package static func sleep(microseconds: Int) {
    var duration = timespec(tv_sec: microseconds / 1_000_000, tv_nsec: microseconds % 1_000_000 * 1_000)
    // Woken early by a signal, the caller tries early.
    unsafe nanosleep(&duration, nil)
  }
}
