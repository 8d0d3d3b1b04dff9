internal import CPosix
public import Synchronization
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

/// A shared mapping of a file, whose words are read and written atomically.
///
/// It is public for `withWord` and `withWords`, because `package` functions are never inlined into other modules.
@safe public struct MappedFile: ~Copyable, @unchecked Sendable {
  // Unchecked because of the pointer, which is set once; the memory is only accessed atomically.
  @usableFromInline let base: UnsafeMutableRawPointer
  @usableFromInline let byteCount: Int

  init(adopting base: UnsafeMutableRawPointer, byteCount: Int) {
    unsafe self.base = unsafe base
    self.byteCount = byteCount
    // The mapping keeps the open file and its locks alive, so a forked child has to unmap it.
    unsafe blob_note_mapping(base, byteCount)
  }

  deinit {
    unsafe blob_unmap(base, byteCount)
  }

  /// Calls `body` with the word at an offset.
  ///
  /// It is inlinable for speed: a generic function of another module asks the runtime for its types in each call.
  @inlinable
  public func withWord<Word: AtomicRepresentable, Result>(
    at offset: Int, as type: Word.Type, _ body: (borrowing Atomic<Word>) -> Result
  ) -> Result {
    let end = offset + MemoryLayout<Atomic<Word>>.size
    precondition(offset >= 0 && end <= byteCount, "word at \(offset) of a mapping of \(byteCount) bytes")
    return unsafe body((base + offset).assumingMemoryBound(to: Atomic<Word>.self).pointee)
  }

  /// Prefetches the cache line at an offset; several prefetches overlap.
  package func prefetch(at offset: Int) {
    precondition(offset >= 0 && offset < byteCount, "a line at \(offset) of a mapping of \(byteCount) bytes")
    unsafe blob_prefetch(base + offset)
  }

  /// Calls `body` with several consecutive words, whose bounds are checked once.
  ///
  /// - Parameter body: Receives the first word, and may access `count` words.
  @inlinable
  public func withWords<Result>(
    at offset: Int, count: Int, _ body: (UnsafePointer<Atomic<UInt64>>) -> Result
  ) -> Result {
    let end = offset + count * MemoryLayout<Atomic<UInt64>>.size
    precondition(offset >= 0 && end <= byteCount, "words at \(offset) of a mapping of \(byteCount) bytes")
    return unsafe body(UnsafePointer((base + offset).assumingMemoryBound(to: Atomic<UInt64>.self)))
  }
}

extension OpenFile {
  /// Calls `body` with the first bytes (at least one), mapped; a read after the file's end raises SIGBUS.
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
