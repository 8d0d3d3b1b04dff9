internal import Posix

/// Where the arrays of a `SlotStorage` lie.
@usableFromInline
enum SlotMemory {
  /// Memory that begins with a cache line, and lies in large pages where possible.
  ///
  /// So an entry of 64 bytes, with a string and a reference, is never split. Large pages are for large arrays.
  @usableFromInline
  static func allocate(byteCount: Int, alignment: Int) -> UnsafeMutableRawPointer {
    guard byteCount >= LargePages.size else {
      return .allocate(byteCount: byteCount, alignment: max(alignment, 64))
    }
    let room = UnsafeMutableRawPointer.allocate(byteCount: byteCount, alignment: LargePages.size)
    unsafe LargePages.prefer(room, byteCount: byteCount)
    return unsafe room
  }

  @inlinable
  static func allocate<Element>(_ count: Int, of type: Element.Type = Element.self) -> UnsafeMutablePointer<Element> {
    let layout = MemoryLayout<Element>.self
    let room = unsafe allocate(byteCount: count * layout.stride, alignment: layout.alignment)
    return unsafe room.bindMemory(to: Element.self, capacity: count)
  }

  /// Frees as raw memory: that is how it was allocated.
  @inlinable
  static func deallocate<Element>(_ elements: UnsafeMutablePointer<Element>) {
    unsafe UnsafeMutableRawPointer(elements).deallocate()
  }
}
