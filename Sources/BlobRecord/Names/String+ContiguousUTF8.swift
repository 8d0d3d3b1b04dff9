extension String {
  /// Calls `body` with the text's UTF-8 bytes.
  ///
  /// Text in one piece, as keys are, is not copied. `withUTF8` needs a copy, because it may change the string.
  @inline(__always)
  package func withContiguousUTF8<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
    if let result = unsafe utf8.withContiguousStorageIfAvailable({ unsafe body($0) }) { return result }
    var copy = self
    return copy.withUTF8 { unsafe body($0) }
  }

  /// The same without a result. What is generic asks the runtime for its types, where it is called from another module.
  package func withContiguousUTF8(_ body: (UnsafeBufferPointer<UInt8>) -> Void) {
    if unsafe utf8.withContiguousStorageIfAvailable({ unsafe body($0) }) != nil { return }
    var copy = self
    copy.withUTF8 { unsafe body($0) }
  }

  /// Whether two texts are the same bytes. Equal texts may be spelt with others.
  package func hasSameBytes(as other: String) -> Bool {
    unsafe withContiguousUTF8 { first in
      unsafe other.withContiguousUTF8 { second in
        unsafe UnsafeRawBufferPointer(first).hasSameBytes(as: UnsafeRawBufferPointer(second))
      }
    }
  }
}

extension String {
  /// Whether the text's UTF-8 is these bytes.
  package func hasUTF8(_ bytes: UnsafeRawBufferPointer) -> Bool {
    unsafe withContiguousUTF8 { unsafe UnsafeRawBufferPointer($0).hasSameBytes(as: bytes) }
  }
}

extension UnsafeRawBufferPointer {
  /// Compares eight bytes at a time; the last eight may overlap those before.
  ///
  /// Byte by byte through views of text, this costs more than all the rest of a hit in memory.
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
