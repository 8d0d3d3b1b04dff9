package import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

extension Stat {
  /// When the content was last changed, in Unix seconds.
  package var modifiedSeconds: Int64 { Int64(st_mtim.tv_sec) }

  /// When the file or anything about it was last changed, in Unix nanoseconds; held at the ends of the type.
  package var changeNanoseconds: Int64 {
    #if canImport(Darwin)
      Self.nanoseconds(rawValue.st_ctimespec)
    #else
      Self.nanoseconds(rawValue.st_ctim)
    #endif
  }

  /// When the content was last changed, in Unix nanoseconds; held at the ends of the type.
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

  /// Whether a change made now, or later, leaves a file with another time than this one, which it has: file systems stamp
  /// with the time of the last tick, of ten milliseconds at the most, or in whole seconds or two.
  package static func isPast(_ nanoseconds: Int64, at systemTime: Int64) -> Bool {
    let (age, overflow) = systemTime.subtractingReportingOverflow(nanoseconds)
    return !overflow && age > (isExact(nanoseconds) ? 100_000_000 : 2_500_000_000)
  }

  /// The same, though somebody set the clock back: it would have to come by the same nanosecond. Whole seconds, it comes by.
  package static func isSurelyPast(_ nanoseconds: Int64, at systemTime: Int64) -> Bool {
    isExact(nanoseconds) && isPast(nanoseconds, at: systemTime)
  }

  /// The same by the clock that the kernel stamps files with, however late its ticks are. It needs to be ahead by no more than
  /// what the file system has cut off: less than a microsecond of a time that is no multiple of one, of any other ten milliseconds at
  /// the most (exFAT).
  package static func isSurelyPast(_ nanoseconds: Int64, atTick tick: Int64) -> Bool {
    let (age, overflow) = tick.subtractingReportingOverflow(nanoseconds)
    return !overflow && isExact(nanoseconds) && age > (nanoseconds.isMultiple(of: 1000) ? 10_000_000 : 1000)
  }

  private static func isExact(_ nanoseconds: Int64) -> Bool { !nanoseconds.isMultiple(of: 1_000_000_000) }

  package var inodeNumber: UInt64 { UInt64(rawValue.st_ino) }
}
