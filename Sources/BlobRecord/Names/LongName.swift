/// The file name under `encoded` of a key whose escaped bytes exceed the maximum length of a file name.
///
/// It is the beginning of the escaped key, `%~`, and the SHA-256 of the key in hexadecimal. No escape begins with
/// `%~`, so no other key has such a name. Keys with a common prefix still have names with a common prefix. The record
/// contains the key: Spec/RecordFormat.md 7.
enum LongName {
  private static let separator = "%~"
  private static let tailByteCount = separator.utf8.count + 2 * SHA256Digest.byteCount
  /// The maximum number of bytes of the escaped key: 189.
  static let beginningByteCount = RecordNaming.maximumFileNameBytes - tailByteCount

  static func name(ofKey key: String, encoded: String) throws(KeyError) -> String {
    guard key.utf8.count <= RecordExtension.maximumKeyByteCount else {
      throw .longerThanKept(byteCount: key.utf8.count)
    }
    return beginning(ofEncoded: encoded) + separator + RecordNaming.hexadecimalSHA256(key)
  }

  /// Returns the beginning of an escaped key for a long name: whole escapes and whole scalars, at most 189 bytes.
  static func beginning(ofEncoded encoded: String) -> String {
    guard encoded.utf8.count > beginningByteCount else { return encoded }
    let bytes = encoded.utf8
    var end = bytes.index(bytes.startIndex, offsetBy: beginningByteCount)
    // Moves back to the first byte of a scalar.
    while bytes[end] & 0xC0 == 0x80 { end = bytes.index(before: end) }
    // An escape has three bytes, so an escape that was cut begins in the last two.
    for back in 1...2 {
      guard let start = bytes.index(end, offsetBy: -back, limitedBy: bytes.startIndex) else { break }
      if bytes[start] == UInt8(ascii: "%") {
        end = start
        break
      }
    }
    return String(encoded[..<end])
  }

  static func isTail(of name: Span<UInt8>, at index: Int) -> Bool {
    guard name.count - index == tailByteCount, index <= beginningByteCount, index > beginningByteCount - 4,
      name[index] == UInt8(ascii: "%"), name[index + 1] == UInt8(ascii: "~")
    else { return false }
    return ((index + 2)..<name.count).allSatisfy { RecordNaming.isDigit(name[$0]) }
  }

  /// Returns a Boolean value that indicates whether the name has the form of a long name; the key is unknown.
  static func isName(_ name: String) -> Bool {
    let bytes = name.utf8
    guard bytes.count > tailByteCount, bytes.count <= RecordNaming.maximumFileNameBytes else { return false }
    let tail = bytes.suffix(tailByteCount)
    guard tail.starts(with: separator.utf8), RecordNaming.isHexadecimalSHA256(tail.dropFirst(separator.utf8.count)),
      let decoded = String(bytes.dropLast(tailByteCount)).flatMap(NameEscapes.decode)
    else { return false }
    return NameEscapes.encode(decoded).utf8.elementsEqual(bytes.dropLast(tailByteCount))
      // A key with a shorter beginning is not shortened.
      && bytes.count - tailByteCount > beginningByteCount - 4
  }
}
