internal import TextFormats

/// The escapes of the `encoded` naming: upper-case `%XX` for bytes that a file name cannot or should not contain.
package enum NameEscapes {
  /// - Returns: The escaped text, or the text itself, without an allocation, if it needs no escapes.
  static func encode(_ text: String) -> String {
    let escapes = escapeCount(text)
    guard escapes > 0 else { return text }
    return unsafe text.withContiguousUTF8 { bytes in
      let bytes = unsafe bytes.span
      return unsafe String(unsafeUninitializedCapacity: bytes.count + 2 * escapes) { encoded in
        var count = 0
        for index in bytes.indices {
          let byte = bytes[index]
          if needsEscape(byte) || index == 0 && byte == UInt8(ascii: ".") {
            let escape = PercentEncoding.escape(of: byte)
            unsafe (encoded[count], encoded[count + 1], encoded[count + 2]) = escape
            count += 3
          } else {
            unsafe encoded[count] = byte
            count += 1
          }
        }
        return count
      }
    }
  }

  /// Decodes a name, including escapes that `encode` would not produce, which encoding the result again reveals.
  ///
  /// - Returns: The text, or `nil` if a `%` lacks two hexadecimal digits or if the bytes are not UTF-8.
  package static func decode(_ name: String) -> String? {
    guard name.utf8.contains(UInt8(ascii: "%")) else { return name }
    return PercentEncoding.bytes(decoding: Substring(name), digit: Hexadecimal.upperCaseValue).flatMap {
      String(validating: $0, as: UTF8.self)
    }
  }

  private static func escapeCount(_ text: String) -> Int {
    unsafe text.withContiguousUTF8 { bytes in
      let leading = unsafe bytes.first == UInt8(ascii: ".") ? 1 : 0
      guard unsafe mayNeedEscapes(UnsafeRawBufferPointer(bytes)) else { return leading }
      return unsafe bytes.reduce(leading) { $0 + (needsEscape($1) ? 1 : 0) }
    }
  }

  /// Returns `false` if no byte needs an escape.
  ///
  /// The check runs for every operation on a key, so it reads eight bytes at a time. The last eight bytes may overlap
  /// the previous ones. Text shorter than eight bytes is not read, and the result is `true`.
  ///
  /// Source of the checks of all bytes of a word in parallel: S. E. Anderson, "Bit Twiddling Hacks", "Determine if a
  /// word has a byte less than n", and "equal to n".
  private static func mayNeedEscapes(_ bytes: UnsafeRawBufferPointer) -> Bool {
    guard bytes.count >= 8 else { return true }
    let ones: UInt64 = 0x0101_0101_0101_0101
    func hasByte(below limit: UInt64, _ word: UInt64) -> Bool {
      (word &- ones &* limit) & ~word & (ones &* 0x80) != 0
    }
    func hasByte(_ value: UInt8, _ word: UInt64) -> Bool { hasByte(below: 1, word ^ (ones &* UInt64(value))) }
    var offset = 0
    while true {
      let word = unsafe bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
      if hasByte(below: 0x20, word) || hasByte(0x7F, word) || hasByte(UInt8(ascii: "/"), word)
        || hasByte(UInt8(ascii: "%"), word)
      {
        return true
      }
      guard offset < bytes.count - 8 else { return false }
      offset = min(offset + 8, bytes.count - 8)
    }
  }

  private static func needsEscape(_ byte: UInt8) -> Bool {
    byte < 0x20 || byte == 0x7F || byte == UInt8(ascii: "/") || byte == UInt8(ascii: "%")
  }

  /// Returns a Boolean value that indicates whether three bytes are an escape that `encode` produces for ASCII.
  static func isEscape(in name: Span<UInt8>, at index: Int) -> Bool {
    guard index + 2 < name.count, name[index] == UInt8(ascii: "%"),
      let high = Hexadecimal.upperCaseValue(name[index + 1]),
      let low = Hexadecimal.upperCaseValue(name[index + 2])
    else { return false }
    let byte = high << 4 | low
    return needsEscape(byte) || index == 0 && byte == UInt8(ascii: ".")
  }
}
