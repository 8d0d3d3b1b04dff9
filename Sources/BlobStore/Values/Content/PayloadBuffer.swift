#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif
/// Memory of a payload's size, not zeroed, that becomes `Data` without a copy.
@safe struct PayloadBuffer: ~Copyable {
  let bytes: UnsafeMutableRawBufferPointer

  /// - Parameter byteCount: above zero.
  /// - Returns: nil where there is no memory.
  init?(byteCount: Int) {
    // malloc, because Data frees the memory by free.
    guard let base = unsafe malloc(byteCount) else { return nil }
    unsafe bytes = UnsafeMutableRawBufferPointer(start: base, count: byteCount)
  }

  deinit { unsafe free(bytes.baseAddress) }

  /// The first bytes of the memory, or all of it, and the memory with them.
  consuming func take(_ count: Int? = nil) -> Data {
    let bytes = unsafe bytes
    discard self
    return unsafe Data(bytesNoCopy: bytes.baseAddress!, count: count ?? bytes.count, deallocator: .free)
  }
}
