internal import Posix

/// Where the arrays of a `SlotStorage` lie.
@usableFromInline
enum SlotMemory {
  /// Room that begins with a cache line, so that an entry with a string and a reference, 64 bytes, is never split; large
  /// arrays lie in large pages where the system has them.
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
