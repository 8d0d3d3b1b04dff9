#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// Memory in large pages.
///
/// Random access to much of it needs fewer entries of the processor's address cache.
package enum LargePages {
  /// The size of a large page on x86-64, and on arm64 with 4-KiB pages.
  package static var size: Int { 1 << 21 }

  /// Asks for large pages for memory that begins with one. A kernel without them, or that spares them, gives small ones.
  ///
  /// System call: madvise(2) with `MADV_HUGEPAGE`; nothing on Darwin, which has no such advice.
  package static func prefer(_ start: UnsafeMutableRawPointer, byteCount: Int) {
    #if os(Linux)
      // It is advice: a refusal changes nothing but the speed.
      _ = unsafe madvise(start, byteCount, MADV_HUGEPAGE)
    #endif
  }
}
