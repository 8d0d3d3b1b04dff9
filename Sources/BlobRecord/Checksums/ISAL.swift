#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// Intel's ISA-L, which computes CRC-32 with the widest carry-less multiplication instructions of the processor.
///
/// The library is loaded dynamically when the process computes its first checksum. A build therefore needs no ISA-L
/// headers, and a machine without the library uses zlib.
package enum ISAL {
  /// `uint32_t crc32_gzip_refl(uint32_t init_crc, const unsigned char *buf, uint64_t len)` from `isa-l/crc.h`.
  package typealias Checksum = @convention(c) (UInt32, UnsafePointer<UInt8>, UInt64) -> UInt32

  /// The file name of ISA-L 2, which distributions install without the headers.
  package static let libraryName = "libisal.so.2"

  package static let checksum = unsafe find(in: libraryName)

  /// Returns the function from the library, or `nil` if it cannot be loaded or computes a different checksum.
  package static func find(in library: String) -> Checksum? {
    #if canImport(Darwin)
      return nil
    #else
      guard let handle = unsafe dlopen(library, RTLD_NOW | RTLD_LOCAL) else { return nil }
      guard let symbol = unsafe dlsym(handle, "crc32_gzip_refl") else { return nil }
      let checksum = unsafe unsafeBitCast(symbol, to: Checksum.self)
      // The check value of CRC-32/ISO-HDLC in the catalogue of parametrised CRC algorithms.
      return unsafe checksum(0, Array("123456789".utf8), 9) == 0xCBF4_3926 ? checksum : nil
    #endif
  }
}
