internal import Locks
internal import Posix
internal import Synchronization

/// The pages of a sparse shared file that this process knows to be allocated.
///
/// A sparse file takes space only for the pages in use. A write through a mapping to a page that has no blocks, or that
/// shares them with a copy, ends the process if the volume is full. Therefore, each process allocates a page before it
/// writes to the page for the first time. The allocated pages are remembered only in this private memory, because a copy
/// of the file may have other holes.
@safe final class SparsePages: @unchecked Sendable {
  // Unchecked because of the pointer, which is set once, and points to atomics, which any thread may use.
  private let known: UnsafeMutablePointer<Atomic<UInt64>>
  private let wordCount: Int
  /// Zeros to read in place of a hole, on a file system on which reading a hole takes room, or `nil`.
  let zeros: MappedFile?
  let readsNeedRoom: Bool
  /// Serializes the threads of this process, which share the locks of the file, while one fills a page.
  private let filling = Lock(())

  /// The number of bytes that are allocated together: at least a block of the file system, and a page of memory, which
  /// the kernel writes as a whole.
  static let pageByteCount = max(4096, CurrentProcess.memoryPageByteCount)

  init(byteCount: Int, zeros: consuming MappedFile?) {
    readsNeedRoom = if zeros == nil { false } else { true }
    self.zeros = zeros
    wordCount = (byteCount / Self.pageByteCount + 64) / 64
    unsafe known = .allocate(capacity: wordCount)
    for index in 0..<wordCount { unsafe (known + index).initialize(to: Atomic(0)) }
  }

  deinit {
    unsafe known.deinitialize(count: wordCount)
    unsafe known.deallocate()
  }

  static func page(of offset: Int) -> Range<Int64> {
    let start = Int64(offset / pageByteCount * pageByteCount)
    return start..<start + Int64(pageByteCount)
  }

  private func isKnown(_ offset: Int) -> Bool {
    let page = offset / Self.pageByteCount
    return unsafe known[page / 64].load(ordering: .acquiring) & 1 << UInt64(page % 64) != 0
  }

  private func note(_ offset: Int) {
    let page = offset / Self.pageByteCount
    _ = unsafe known[page / 64].bitwiseOr(1 << UInt64(page % 64), ordering: .releasing)
  }

  /// Returns whether an offset is in a hole, which must not be read through the mapping if there are `zeros`.
  ///
  /// System calls: none for a page that is known to be allocated, otherwise `lseek(2)`.
  func isHole(_ offset: Int, of file: borrowing OpenFile) -> Bool {
    if isKnown(offset) { return false }
    do {
      if try file.isHole(at: Self.page(of: offset).lowerBound) { return true }
      note(offset)
    } catch {
      // Zeros in place of data could make an old blob appear current.
    }
    return false
  }

  /// Allocates the page of an offset before the first write to it by this process.
  ///
  /// System calls: none for a page that is known to be allocated, otherwise `fallocate(2)`.
  ///
  /// - Parameter byte: The byte that is locked to write the page, where the system cannot allocate a range of a file.
  /// - Returns: `true` if the page was not known to be allocated.
  /// - Throws: `FileError`, with ENOSPC or EDQUOT if the volume is full.
  @discardableResult
  func allocate(_ offset: Int, of file: borrowing OpenFile, locking byte: Range<Int64>) throws(FileError) -> Bool {
    if isKnown(offset) { return false }
    let page = Self.page(of: offset)
    if try !file.own(page) { try fill(page, of: file, locking: byte) }
    note(offset)
    return true
  }

  /// Writes zeros to a page if it is a hole. No process writes to a hole through its mapping, so no byte is overwritten.
  private func fill(
    _ page: Range<Int64>, of file: borrowing OpenFile, locking byte: Range<Int64>
  ) throws(FileError) {
    try filling.withLock { _ throws(FileError) in
      // Other processes hold the lock only for one write.
      var backoff = Backoff(timeout: .seconds(10))
      while try !file.tryLock(bytes: byte) {
        guard backoff.wait() else { throw FileError(.lockByte, file.location, .wouldBlock) }
      }
      defer {
        // Fails only for an invalid descriptor or range. The lock would then be released with the process.
        try? file.unlock(bytes: byte)
      }
      guard try file.isHole(at: page.lowerBound) else { return }
      let zeros = [UInt8](repeating: 0, count: page.count)
      try file.write(unsafe zeros.span.bytes, at: page.lowerBound)
    }
  }
}
