/// How a key becomes a file name, and back. Spec/RecordFormat.md, "Names".
public enum RecordNaming: String, CaseIterable, Sendable {
  /// The key's bytes, some escaped as `%XX`; the default.
  ///
  /// Escaped are `/`, `%`, 0x00-0x1F, 0x7F and a leading `.`. A key whose name would be too long has a `LongName`.
  case encoded
  /// The key's bytes as they are, as in SPTPersistentCache.
  ///
  /// A key with `/`, NUL or a leading `.` has no name.
  case verbatim
  /// The SHA-256 of the key in lower-case hexadecimal.
  ///
  /// Keys may have any length. The records tell them, up to 64 KiB, and the names do not.
  case sha256

  /// The longest file name that ext4, xfs, btrfs and APFS take, in bytes.
  public static let maximumFileNameBytes = 255

  /// The file name of a key.
  ///
  /// - Complexity: O(*n*) for *n* bytes of key; no allocation where the name is the key itself.
  public func fileName(for key: BlobKey) throws(KeyError) -> String {
    guard !key.string.isEmpty else { throw .empty }
    let name =
      switch self {
      case .encoded: try Self.encodedName(key.string)
      case .verbatim: try Self.verbatimName(key.string)
      case .sha256: Self.hexadecimalSHA256(key.string)
      }
    guard name.utf8.count <= Self.maximumFileNameBytes else { throw .tooLong(byteCount: name.utf8.count) }
    return name
  }

  /// The key of a file name; nil if the name does not tell it.
  ///
  /// It is also nil for a name that this naming gives to no key, and for one whose record keeps the key.
  public func key(ofFileName name: String) -> BlobKey? {
    guard accepts(fileName: name) else { return nil }
    return switch self {
    case .encoded: NameEscapes.decode(name).map { BlobKey($0) }
    case .verbatim: BlobKey(name)
    case .sha256: nil
    }
  }

  /// Whether some key has this file name. A file with another name is foreign.
  public func accepts(fileName name: String) -> Bool {
    guard !name.isEmpty, name.utf8.count <= Self.maximumFileNameBytes else { return false }
    switch self {
    case .encoded:
      guard let decoded = NameEscapes.decode(name) else { return LongName.isName(name) }
      return NameEscapes.encode(decoded).utf8.elementsEqual(name.utf8)
    case .verbatim:
      return Self.firstUnsafeByte(name) == nil
    case .sha256:
      return Self.isHexadecimalSHA256(name.utf8)
    }
  }

  /// Whether the file name of some key begins with this. Files in a directory named otherwise are foreign, and so is
  /// the directory.
  func accepts(fileNameBeginning beginning: String) -> Bool {
    let completions =
      switch self {
      case .encoded: ["", "0", "F", "2F"]  // an escape may be cut behind its `%` or behind its first digit
      case .verbatim: [""]
      case .sha256: [String(repeating: "0", count: max(0, 2 * SHA256Digest.byteCount - beginning.utf8.count))]
      }
    return completions.contains { accepts(fileName: beginning + $0) }
  }

  /// Whether the record of this name keeps its key, because the name does not tell it.
  public func keepsKey(ofFileName name: String) -> Bool {
    switch self {
    case .encoded: LongName.isName(name)
    case .verbatim: false
    case .sha256: true
    }
  }

  /// A beginning of the file names of all keys with a prefix.
  ///
  /// It is the longest one by `verbatim`, and by `encoded` up to `LongName.beginningByteCount`. Names of other keys may
  /// begin so too.
  public func fileNamePrefix(forKeyPrefix prefix: String) throws(KeyError) -> String {
    switch self {
    case .encoded: return LongName.beginning(ofEncoded: NameEscapes.encode(prefix))
    case .verbatim: return prefix.isEmpty ? prefix : try Self.verbatimName(prefix)
    case .sha256: return ""
    }
  }

  private static func encodedName(_ key: String) throws(KeyError) -> String {
    let name = NameEscapes.encode(key)
    return name.utf8.count <= maximumFileNameBytes ? name : try LongName.name(ofKey: key, encoded: name)
  }

  /// Bytes of a key with its escapes.
  package static func encodedByteCount(of key: BlobKey) -> Int { NameEscapes.encode(key.string).utf8.count }

  private static func verbatimName(_ key: String) throws(KeyError) -> String {
    if let byte = firstUnsafeByte(key) { throw .notVerbatim(byte: byte) }
    return key
  }

  private static func firstUnsafeByte(_ name: String) -> UInt8? {
    name.utf8.first == UInt8(ascii: ".") ? UInt8(ascii: ".") : name.utf8.first { $0 == UInt8(ascii: "/") || $0 == 0 }
  }

  static func hexadecimalSHA256(_ key: String) -> String {
    let digits = Array("0123456789abcdef".utf8)
    let digest = unsafe key.withContiguousUTF8 { unsafe SHA256Digest.digest(of: $0.span.bytes) }
    return String(decoding: digest.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
  }

  static func isHexadecimalSHA256(_ text: some Collection<UInt8>) -> Bool {
    text.count == 2 * SHA256Digest.byteCount && text.allSatisfy(isDigit)
  }

  /// Whether a byte is a hexadecimal digit in lower case.
  static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte) }

  /// Whether a name is one that `sha256` gives.
  func acceptsDigest(_ name: Span<UInt8>) -> Bool {
    guard name.count == 2 * SHA256Digest.byteCount else { return false }
    return name.indices.allSatisfy { Self.isDigit(name[$0]) }
  }
}
