internal import CPosix

/// The boot of the system that runs: what was written to memory of a file under another one may be lost.
package enum SystemBoot {
  /// Sixteen bytes, the same in all processes since the system started; nil where the system does not tell.
  package static let identifier: SIMD2<UInt64>? = {
    var text = [CChar](repeating: 0, count: 37)
    guard unsafe text.withUnsafeMutableBufferPointer({ unsafe blob_boot_identifier($0.baseAddress!) }) == 0 else {
      return nil
    }
    let digits = text.compactMap { UInt8(exactly: $0).flatMap { Character(UnicodeScalar($0)).hexDigitValue } }
    guard digits.count == 32 else { return nil }
    func word(_ digits: ArraySlice<Int>) -> UInt64 { digits.reduce(0) { $0 << 4 | UInt64($1) } }
    return SIMD2(word(digits[..<16]), word(digits[16...]))
  }()
}
