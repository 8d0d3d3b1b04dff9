#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#endif

/// The processor time of the calling thread.
///
/// It excludes other load on the machine, which still slows it through the processor's caches.
public enum ThreadTime {
  /// - Returns: The processor time in nanoseconds.
  public static func measure(_ work: () -> Void) -> Double {
    let start = now()
    work()
    return now() - start
  }

  private static func now() -> Double {
    var time = timespec()
    // Fails only for invalid clocks and pointers.
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
  }
}
