internal import CPosix
internal import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

extension OpenFile {
  /// Calls `body` with the file's first bytes, mapped to be read.
  ///
  /// The file must be as long and stay so: a read beyond its end ends the process by SIGBUS.
  ///
  /// - Parameter byteCount: above zero.
  package borrowing func withMappedBytes<Result>(
    byteCount: Int, _ body: (RawSpan) throws -> Result
  ) throws -> Result {
    var base: UnsafeMutableRawPointer?
    try perform(.map) { descriptor in
      unsafe base = mmap(nil, byteCount, PROT_READ, MAP_SHARED, descriptor, 0)
      return unsafe base == MAP_FAILED ? -1 : 0
    }
    defer { unsafe blob_unmap(base!, byteCount) }
    return try body(unsafe RawSpan(_unsafeBytes: UnsafeRawBufferPointer(start: base, count: byteCount)))
  }
}
