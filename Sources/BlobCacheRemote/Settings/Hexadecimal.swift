extension String {
  /// Bytes in hexadecimal digits, of which `a` to `f` are lower case.
  ///
  /// - Complexity: O(*n*) for *n* bytes.
  init(hexadecimal bytes: some Sequence<UInt8>) {
    let digits = Array("0123456789abcdef".utf8)
    self.init(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
  }
}
