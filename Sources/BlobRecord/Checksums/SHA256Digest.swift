/// SHA-256 of bytes in memory, which names files under the `sha256` naming.
package enum SHA256Digest {
  /// The bytes of a digest.
  package static let byteCount = 32

  /// The digest of some bytes.
  ///
  /// - Complexity: O(*n*) for *n* bytes.
  package static func digest(of bytes: RawSpan) -> [UInt8] {
    var hasher = SHA256Hasher()
    hasher.update(bytes)
    return hasher.finalize()
  }
}
