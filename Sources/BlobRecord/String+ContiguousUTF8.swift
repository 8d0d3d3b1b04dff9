extension String {
  /// Calls `body` with the text's UTF-8 bytes; of text that lies in one piece, as that of keys does, without a copy of the
  /// string, which `withUTF8` needs, since it may change it.
  @inline(__always)
  func withContiguousUTF8<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
    if let result = unsafe utf8.withContiguousStorageIfAvailable({ unsafe body($0) }) { return result }
    var copy = self
    return copy.withUTF8 { unsafe body($0) }
  }
}
