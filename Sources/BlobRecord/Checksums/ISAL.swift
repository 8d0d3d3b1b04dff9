#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// Intel's ISA-L, which computes CRC-32 by the processor's widest instructions for carry-less multiplication.
///
/// It is looked for once, when a checksum is first needed, and kept for the process's life. So a build needs no headers of
/// it, and a machine without it computes by zlib.
package enum ISAL {
  /// `uint32_t crc32_gzip_refl(uint32_t init_crc, const unsigned char *buf, uint64_t len)`, of `isa-l/crc.h`.
  package typealias Checksum = @convention(c) (UInt32, UnsafePointer<UInt8>, UInt64) -> UInt32

  /// The name of ISA-L 2: distributions install it without the headers.
  package static let libraryName = "libisal.so.2"

  /// nil where there is no such library.
  package static let checksum = unsafe find(in: libraryName)

  /// Finds the function in the library; nil if that fails or it computes something else.
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
