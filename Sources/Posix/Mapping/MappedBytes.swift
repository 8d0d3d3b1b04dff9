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

/// Owns a shared mapping of a file that is only read.
///
/// Others may write to the file meanwhile. So what is copied has to be judged by its content.
@safe package final class MappedBytes: @unchecked Sendable {
  // Unchecked because of the pointer: it is set once, and nothing is written through it.
  private let base: UnsafeMutableRawPointer
  private let byteCount: Int

  init(adopting base: UnsafeMutableRawPointer, byteCount: Int) {
    unsafe self.base = unsafe base
    self.byteCount = byteCount
    // The mapping keeps the open file alive, and so its locks: a forked child must give it up too.
    unsafe blob_note_mapping(base, byteCount)
  }

  deinit { unsafe blob_unmap(base, byteCount) }

  /// Copies what begins at an offset.
  ///
  /// The file must be as long: behind its end, and where the medium cannot be read, the system ends the process by SIGBUS.
  package func copy(from offset: Int, into buffer: UnsafeMutableRawBufferPointer) {
    precondition(
      offset >= 0 && buffer.count <= byteCount - offset,
      "\(buffer.count) bytes at \(offset) of a mapping of \(byteCount)")
    unsafe buffer.copyMemory(from: UnsafeRawBufferPointer(start: base + offset, count: buffer.count))
  }
}

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
