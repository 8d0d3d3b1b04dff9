extension String {
  /// Calls `body` with the text's UTF-8 bytes.
  ///
  /// Text in one piece, as keys are, is not copied. `withUTF8` needs a copy, because it may change the string.
  @inline(__always)
  func withContiguousUTF8<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
    if let result = unsafe utf8.withContiguousStorageIfAvailable({ unsafe body($0) }) { return result }
    var copy = self
    return copy.withUTF8 { unsafe body($0) }
  }
}
