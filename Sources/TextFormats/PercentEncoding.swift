/// Percent-encoding of URLs (RFC 3986, section 2.1).
package enum PercentEncoding {
  /// Escapes every byte except ASCII letters, ASCII digits, `-`, `.`, `_` and `~`, as AWS Signature Version 4 requires.
  package static func encoded(_ text: String, keepsSlashes: Bool = false) -> String {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.utf8.count)
    for byte in text.utf8 {
      if isUnreserved(byte) || keepsSlashes && byte == UInt8(ascii: "/") {
        bytes.append(byte)
      } else {
        let escape = escape(of: byte)
        bytes += [escape.0, escape.1, escape.2]
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Returns the percent sign and the two digits that encode a byte.
  @inlinable
  package static func escape(of byte: UInt8) -> (UInt8, UInt8, UInt8) {
    func digit(_ value: UInt8) -> UInt8 { value + (value < 10 ? 0x30 : 0x37) }
    return (UInt8(ascii: "%"), digit(byte >> 4), digit(byte & 15))
  }

  /// Decodes a text, or returns `nil` if an escape is incomplete or the decoded bytes are not UTF-8.
  package static func decoded(_ text: some StringProtocol) -> String? {
    bytes(decoding: Substring(text)).flatMap { String(validating: $0, as: UTF8.self) }
  }

  /// Decodes a text, or returns `nil` if a percent sign is not followed by two digits.
  ///
  /// - Parameter digit: Returns the value of a hexadecimal digit, or `nil` for a byte that is not accepted as a digit.
  package static func bytes(
    decoding text: Substring, digit: (UInt8) -> UInt8? = Hexadecimal.value
  ) -> [UInt8]? {
    var decoded: [UInt8] = []
    decoded.reserveCapacity(text.utf8.count)
    var bytes = text.utf8.makeIterator()
    while let byte = bytes.next() {
      guard byte == UInt8(ascii: "%") else {
        decoded.append(byte)
        continue
      }
      guard let high = bytes.next().flatMap(digit), let low = bytes.next().flatMap(digit) else { return nil }
      decoded.append(high << 4 | low)
    }
    return decoded
  }

  package static func isUnreserved(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"): true
    default: isLetterOrDigit(byte)
    }
  }

  package static func isLetterOrDigit(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "a")...UInt8(ascii: "z"):
      true
    default: false
    }
  }
}
