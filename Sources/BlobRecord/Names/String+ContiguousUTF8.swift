extension String {
  /// Calls `body` with the text's UTF-8 bytes.
  ///
  /// Contiguous text, such as a key, is not copied. `withUTF8` would need a copy, because it may change the string.
  @inline(__always)
  package func withContiguousUTF8<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
    if let result = unsafe utf8.withContiguousStorageIfAvailable({ unsafe body($0) }) { return result }
    var copy = self
    return copy.withUTF8 { unsafe body($0) }
  }

  /// The overload without a result. A generic function called from another module asks the runtime for its types.
  package func withContiguousUTF8(_ body: (UnsafeBufferPointer<UInt8>) -> Void) {
    if unsafe utf8.withContiguousStorageIfAvailable({ unsafe body($0) }) != nil { return }
    var copy = self
    copy.withUTF8 { unsafe body($0) }
  }

  /// Compares the UTF-8 bytes of two texts, because equal strings can have different bytes.
  package func hasSameBytes(as other: String) -> Bool {
    unsafe withContiguousUTF8 { first in
      unsafe other.withContiguousUTF8 { second in
        unsafe UnsafeRawBufferPointer(first).hasSameBytes(as: UnsafeRawBufferPointer(second))
      }
    }
  }
}

extension String {
  package func hasUTF8(_ bytes: UnsafeRawBufferPointer) -> Bool {
    unsafe withContiguousUTF8 { unsafe UnsafeRawBufferPointer($0).hasSameBytes(as: bytes) }
  }
}

extension UnsafeRawBufferPointer {
  /// Compares eight bytes at a time, because comparing single bytes costs more than the rest of a memory hit.
  @inline(__always)
  func hasSameBytes(as other: UnsafeRawBufferPointer) -> Bool {
    guard count == other.count else { return false }
    guard count >= 8 else {
      for offset in 0..<count where unsafe self[offset] != other[offset] { return false }
      return true
    }
    func differ(at offset: Int) -> Bool {
      unsafe loadUnaligned(fromByteOffset: offset, as: UInt64.self)
        != other.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
    }
    var offset = 0
    while offset + 8 <= count {
      if differ(at: offset) { return false }
      offset += 8
    }
    return !differ(at: count - 8)
  }
}
