internal import CPosix

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// A shared, read-only mapping of a file; others may write to the file, so copied bytes have to be validated.
@safe package final class MappedBytes: @unchecked Sendable {
  // Unchecked because of the pointer, which is set once and never written through.
  private let base: UnsafeMutableRawPointer
  private let byteCount: Int

  init(adopting base: UnsafeMutableRawPointer, byteCount: Int) {
    unsafe self.base = unsafe base
    self.byteCount = byteCount
    // The mapping keeps the open file and its locks alive, so a forked child has to unmap it.
    unsafe blob_note_mapping(base, byteCount)
  }

  deinit { unsafe blob_unmap(base, byteCount) }

  /// Copies bytes from an offset.
  ///
  /// The file must contain the range: the system ends the process with SIGBUS for a read after the end of the file,
  /// or if the storage device cannot be read.
  package func copy(from offset: Int, into buffer: UnsafeMutableRawBufferPointer) {
    precondition(
      offset >= 0 && buffer.count <= byteCount - offset,
      "\(buffer.count) bytes at \(offset) of a mapping of \(byteCount)")
    unsafe buffer.copyMemory(from: UnsafeRawBufferPointer(start: base + offset, count: buffer.count))
  }
}

/// Memory in large pages, which needs fewer TLB entries for random access.
package enum LargePages {
  /// The size of a large page on x86-64, and on arm64 with 4-KiB pages.
  package static var size: Int { 1 << 21 }

  /// Requests large pages for memory that is aligned to them; the kernel may still use small ones.
  ///
  /// System call: madvise(2) with `MADV_HUGEPAGE`; none on Darwin, which has no such advice.
  package static func prefer(_ start: UnsafeMutableRawPointer, byteCount: Int) {
    #if os(Linux)
      // A refusal of the advice affects only the speed.
      _ = unsafe madvise(start, byteCount, MADV_HUGEPAGE)
    #endif
  }
}
