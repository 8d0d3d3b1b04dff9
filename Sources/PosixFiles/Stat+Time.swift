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
}
