/// The subdirectory that a digest names: its lowest ten bits as two digits of base 32, `0` to `9` and `a` to `v`.
///
/// The low bits of FNV-1a are those in which numbers at the end of names differ most. With 1,024 subdirectories, a
/// million records lie a thousand in each, and a collection reads a thousand headers after one store.
package struct SpreadSubdirectory {
  /// The two digits in ASCII, the more significant one first.
  package let digits: (UInt8, UInt8)

  package init(_ digest: UInt64) {
    digits = (Self.digit(ofLowBits: digest >> 5), Self.digit(ofLowBits: digest))
  }

  package var name: String {
    unsafe String(unsafeUninitializedCapacity: 2) { buffer in
      unsafe buffer.initializeElement(at: 0, to: digits.0)
      unsafe buffer.initializeElement(at: 1, to: digits.1)
      return 2
    }
  }

  /// Whether some digest names a subdirectory so.
  static func isName(_ name: String) -> Bool {
    name.utf8.count == 2 && name.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x76).contains($0) }
  }

  private static func digit(ofLowBits bits: UInt64) -> UInt8 {
    let value = UInt8(truncatingIfNeeded: bits & 31)
    return value + (value < 10 ? 0x30 : 0x57)
  }
}
