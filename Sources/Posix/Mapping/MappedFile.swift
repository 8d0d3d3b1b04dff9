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

/// Owns a shared mapping of a file, whose words are read and written atomically.
///
/// Public for `withWord` and `withWords` alone: the compiler takes no body of a `package` function into another module, inlinable or
/// not.
@safe public struct MappedFile: ~Copyable, @unchecked Sendable {
  // Unchecked because of the pointer: it is set once, and what it points to is only touched atomically.
  @usableFromInline let base: UnsafeMutableRawPointer
  @usableFromInline let byteCount: Int

  init(adopting base: UnsafeMutableRawPointer, byteCount: Int) {
    unsafe self.base = unsafe base
    self.byteCount = byteCount
    // The mapping keeps the open file alive, and so its locks: a forked child must give it up too.
    unsafe blob_note_mapping(base, byteCount)
  }

  deinit {
    unsafe blob_unmap(base, byteCount)
  }

  /// Calls `body` with the word at an offset. Inlined in other modules too: there are several for each store, and what is
  /// generic elsewhere asks the runtime for its types each time.
  @inlinable
  public func withWord<Word: AtomicRepresentable, Result>(
    at offset: Int, as type: Word.Type, _ body: (borrowing Atomic<Word>) -> Result
  ) -> Result {
    let end = offset + MemoryLayout<Atomic<Word>>.size
    precondition(offset >= 0 && end <= byteCount, "word at \(offset) of a mapping of \(byteCount) bytes")
    return unsafe body((base + offset).assumingMemoryBound(to: Atomic<Word>.self).pointee)
  }

  /// Asks the processor for the cache line at an offset: lines that are asked for together come together.
  package func prefetch(at offset: Int) {
    precondition(offset >= 0 && offset < byteCount, "a line at \(offset) of a mapping of \(byteCount) bytes")
    unsafe blob_prefetch(base + offset)
  }

  /// Calls `body` with several words that follow each other, which are looked up once.
  ///
  /// - Parameter body: receives the first; it touches no more than `count`.
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
