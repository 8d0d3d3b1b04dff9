package import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

extension Stat {
  /// When the content was last changed, in Unix seconds.
  package var modifiedSeconds: Int64 { Int64(st_mtim.tv_sec) }

  /// When the file or its metadata last changed, in Unix nanoseconds.
  ///
  /// It is held at the ends of the type.
  package var changeNanoseconds: Int64 {
    #if canImport(Darwin)
      Self.nanoseconds(rawValue.st_ctimespec)
    #else
      Self.nanoseconds(rawValue.st_ctim)
    #endif
  }

  /// When the content last changed, in Unix nanoseconds; held at the type's ends.
  package var modificationNanoseconds: Int64 {
    #if canImport(Darwin)
      Self.nanoseconds(rawValue.st_mtimespec)
    #else
      Self.nanoseconds(rawValue.st_mtim)
    #endif
  }

  private static func nanoseconds(_ time: timespec) -> Int64 {
    let (nanoseconds, overflow) = Int64(time.tv_sec).multipliedReportingOverflow(by: 1_000_000_000)
    return overflow ? (time.tv_sec > 0 ? .max : .min) : nanoseconds &+ Int64(time.tv_nsec)
  }

  /// Whether a change made from now on gives a file another time than this one.
  ///
  /// File systems stamp with the time of the last tick, ten milliseconds ago at most, or in whole seconds or two.
  package static func isPast(_ nanoseconds: Int64, at systemTime: Int64) -> Bool {
    let (age, overflow) = systemTime.subtractingReportingOverflow(nanoseconds)
    return !overflow && age > (isExact(nanoseconds) ? 100_000_000 : 2_500_000_000)
  }

  /// As `isPast`, even if the clock is set back.
  ///
  /// It would have to meet the very nanosecond. Whole seconds it does meet, so they are never past.
  package static func isSurelyPast(_ nanoseconds: Int64, at systemTime: Int64) -> Bool {
    isExact(nanoseconds) && isPast(nanoseconds, at: systemTime)
  }

  /// As `isSurelyPast`, by the clock that the kernel stamps files with.
  ///
  /// Its ticks may be late. It suffices if it is ahead by what the file system cuts off. That is less than a microsecond
  /// of a time that is not in whole ones, and of any other ten milliseconds at most (exFAT).
  package static func isSurelyPast(_ nanoseconds: Int64, atTick tick: Int64) -> Bool {
    let (age, overflow) = tick.subtractingReportingOverflow(nanoseconds)
    return !overflow && isExact(nanoseconds) && age > (nanoseconds.isMultiple(of: 1000) ? 10_000_000 : 1000)
  }

  private static func isExact(_ nanoseconds: Int64) -> Bool { !nanoseconds.isMultiple(of: 1_000_000_000) }

  package var inodeNumber: UInt64 { UInt64(rawValue.st_ino) }
}
