internal import BlobStore
internal import CPosix
internal import Synchronization

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// A session in a control file with the stripes that it holds, implemented directly from Spec/ControlFile.md.
///
/// It does not check whether the file still has its name.
@safe final class StripeSession: @unchecked Sendable {
  // Unchecked because of the pointer, which is set once. The memory is accessed only with atomic operations.
  private let memory: UnsafeMutableRawPointer
  private let file: CInt
  private let token: UInt64

  /// - Parameter file: The descriptor of the control file, which its owner must keep open during this lifetime.
  /// - Returns: The session, or `nil` if the file is invalid or has no free slot.
  init?(in file: CInt) {
    let length = ControlLayout.byteCount
    guard file >= 0, lseek(file, 0, SEEK_END) == length,
      let memory = unsafe mmap(nil, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0),
      unsafe memory != MAP_FAILED
    else { return nil }
    // The last slots first, because stores use the first ones.
    let free = (0..<ControlLayout.sessionCount).reversed().first {
      blob_lock_bytes(file, ControlLayout.sessionByte($0).lowerBound, 1, 1) == 0
    }
    guard let free else {
      unsafe munmap(memory, length)
      return nil
    }
    unsafe self.memory = memory
    self.file = file
    token = ControlLayout.newToken(for: free)
    unsafe Self.word(memory, ControlLayout.sessionTokenOffset(free)).pointee.store(
      token, ordering: .sequentiallyConsistent)
  }

  deinit { unsafe munmap(memory, ControlLayout.byteCount) }

  func tryLock(_ stripe: Int) -> Bool {
    let word = unsafe Self.word(memory, ControlLayout.stripeOffset(stripe))
    let (isTaken, holder) = unsafe word.pointee.compareExchange(expected: 0, desired: token, ordering: .acquiring)
    if isTaken { return true }
    guard holder != token, !isAlive(holder) else { return false }
    return unsafe word.pointee.compareExchange(expected: holder, desired: token, ordering: .acquiring).exchanged
  }

  func unlock(_ stripe: Int) {
    unsafe Self.word(memory, ControlLayout.stripeOffset(stripe)).pointee.store(0, ordering: .releasing)
  }

  private func isAlive(_ holder: UInt64) -> Bool {
    let number = ControlLayout.sessionNumber(of: holder)
    let current = unsafe Self.word(memory, ControlLayout.sessionTokenOffset(number)).pointee.load(
      ordering: .sequentiallyConsistent)
    return current == holder
      && blob_are_bytes_locked(file, ControlLayout.sessionByte(number).lowerBound, 1) != 0
  }

  private static func word(_ memory: UnsafeMutableRawPointer, _ offset: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
    unsafe (memory + offset).assumingMemoryBound(to: Atomic<UInt64>.self)
  }
}
