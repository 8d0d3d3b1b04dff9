/// The lowest byte of a digest, and the subdirectory that it names: two lower-case hexadecimal digits.
///
/// Of all bytes of FNV-1a it is the one in which numbers at the end of names differ most.
package struct DigestByte {
  /// The two digits, in ASCII.
  package let digits: (UInt8, UInt8)

  package init(_ digest: UInt64) {
    let byte = UInt8(truncatingIfNeeded: digest)
    digits = (Self.digit(byte >> 4), Self.digit(byte & 15))
  }

  package var name: String {
    unsafe String(unsafeUninitializedCapacity: 2) { buffer in
      unsafe buffer.initializeElement(at: 0, to: digits.0)
      unsafe buffer.initializeElement(at: 1, to: digits.1)
      return 2
    }
  }

  /// Whether a byte has this name.
  static func isName(_ name: String) -> Bool {
    name.utf8.count == 2 && name.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
  }

  private static func digit(_ value: UInt8) -> UInt8 { value + (value < 10 ? 0x30 : 0x57) }
}
