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
      let time = rawValue.st_ctimespec
    #else
      let time = rawValue.st_ctim
    #endif
    let (nanoseconds, overflow) = Int64(time.tv_sec).multipliedReportingOverflow(by: 1_000_000_000)
    return overflow ? (time.tv_sec > 0 ? .max : .min) : nanoseconds &+ Int64(time.tv_nsec)
  }

  package var inodeNumber: UInt64 { UInt64(rawValue.st_ino) }
}
