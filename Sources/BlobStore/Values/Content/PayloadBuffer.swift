#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif
/// Uninitialized memory of a payload's size that becomes `Data` without a copy.
@safe struct PayloadBuffer: ~Copyable {
  let bytes: UnsafeMutableRawBufferPointer

  /// Allocates memory of a size above zero, or returns `nil` if there is not enough.
  init?(byteCount: Int) {
    // Allocated by malloc, because `Data` frees the memory by free.
    guard let base = unsafe malloc(byteCount) else { return nil }
    unsafe bytes = UnsafeMutableRawBufferPointer(start: base, count: byteCount)
  }

  deinit { unsafe free(bytes.baseAddress) }

  /// Transfers the memory to a `Data` that contains its first bytes, or all of them.
  consuming func take(_ count: Int? = nil) -> Data {
    let bytes = unsafe bytes
    discard self
    return unsafe Data(bytesNoCopy: bytes.baseAddress!, count: count ?? bytes.count, deallocator: .free)
  }
}
