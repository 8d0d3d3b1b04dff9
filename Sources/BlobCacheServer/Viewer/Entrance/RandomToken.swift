internal import TextFormats

/// Texts that nobody can guess.
package enum RandomToken {
  /// 128 bits of the system's randomness, in hexadecimal digits.
  package static func make() -> String {
    (0..<2).map { _ in Hexadecimal.text(UInt64.random(in: .min ... .max), digits: 16) }.joined()
  }

  /// Compares in a time that tells nothing of where the texts differ.
  static func areEqual(_ a: String, _ b: String) -> Bool {
    guard a.utf8.count == b.utf8.count else { return false }
    return zip(a.utf8, b.utf8).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
  }
}
