package import Synchronization

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// Owns a shared mapping of a file, whose words all processes that map it read and write atomically.
@safe package struct MappedFile: ~Copyable, @unchecked Sendable {
  // Unchecked because of the pointer: it is set once, and what it points to is only touched atomically.
  private let base: UnsafeMutableRawPointer
  private let byteCount: Int

  init(adopting base: UnsafeMutableRawPointer, byteCount: Int) {
    unsafe self.base = unsafe base
    self.byteCount = byteCount
  }

  deinit {
    unsafe munmap(base, byteCount)
  }

  /// Calls `body` with the word at an offset.
  @inline(__always)
  package func withWord<Word: AtomicRepresentable, Result>(
    at offset: Int, as type: Word.Type, _ body: (borrowing Atomic<Word>) -> Result
  ) -> Result {
    let end = offset + MemoryLayout<Atomic<Word>>.size
    precondition(offset >= 0 && end <= byteCount, "word at \(offset) of a mapping of \(byteCount) bytes")
    return unsafe body((base + offset).assumingMemoryBound(to: Atomic<Word>.self).pointee)
  }
}
