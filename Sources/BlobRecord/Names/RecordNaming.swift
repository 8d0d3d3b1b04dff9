/// The mapping between keys and file names: Spec/RecordFormat.md, "Names".
public enum RecordNaming: String, CaseIterable, Sendable {
  /// The key's bytes, with some bytes escaped as `%XX`; the default.
  ///
  /// The bytes `/`, `%`, 0x00-0x1F, 0x7F and a leading `.` are escaped. If the name is too long, it is a `LongName`.
  case encoded
  /// The key's bytes unchanged, as in SPTPersistentCache; keys with `/`, NUL or a leading `.` have no name.
  case verbatim
  /// The SHA-256 of the key in lower-case hexadecimal.
  ///
  /// Keys may have any length. Records contain keys of up to 64 KiB, because the names do not reveal them.
  case sha256

  /// The longest file name that ext4, xfs, btrfs and APFS support, in bytes.
  public static let maximumFileNameBytes = 255

  /// Returns the file name of a key.
  ///
  /// - Complexity: O(*n*) for *n* bytes of key. No memory is allocated if the name is the key itself.
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

  /// Returns the key of a file name, or `nil` if no key has the name or only the record contains the key.
  public func key(ofFileName name: String) -> BlobKey? {
    guard accepts(fileName: name) else { return nil }
    return switch self {
    case .encoded: NameEscapes.decode(name).map { BlobKey($0) }
    case .verbatim: BlobKey(name)
    case .sha256: nil
    }
  }

  /// Checks whether a key can have this file name; files with other names are foreign.
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

  /// Checks whether a file name can begin with this text; a directory with another name is foreign.
  func accepts(fileNameBeginning beginning: String) -> Bool {
    let completions =
      switch self {
      case .encoded: ["", "0", "F", "2F"]  // an escape may be cut after its `%` or its first digit
      case .verbatim: [""]
      case .sha256: [String(repeating: "0", count: max(0, 2 * SHA256Digest.byteCount - beginning.utf8.count))]
      }
    return completions.contains { accepts(fileName: beginning + $0) }
  }

  /// Returns a Boolean value that indicates whether the record with this name contains its key.
  public func keepsKey(ofFileName name: String) -> Bool {
    switch self {
    case .encoded: LongName.isName(name)
    case .verbatim: false
    case .sha256: true
    }
  }

  /// Returns a common prefix of the file names of all keys with a prefix.
  ///
  /// The result is as long as possible under `verbatim`, and under `encoded` up to `LongName.beginningByteCount`.
  /// File names of other keys can have the same prefix.
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

  static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte) }

  func acceptsDigest(_ name: Span<UInt8>) -> Bool {
    guard name.count == 2 * SHA256Digest.byteCount else { return false }
    return name.indices.allSatisfy { Self.isDigit(name[$0]) }
  }
}
