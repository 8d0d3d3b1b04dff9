/// The path of a record below the root: its subdirectory and its file name.
public struct RecordPath: Sendable {
  /// The name of the subdirectory, or an empty string for a record at the root.
  public let subdirectory: String
  public let fileName: String
  /// The `NameDigest` of the file name.
  public let digest: UInt64
  package let arrangement: RecordArrangement

  init(subdirectory: String, fileName: String, digest: UInt64, by arrangement: RecordArrangement) {
    self.subdirectory = subdirectory
    self.fileName = fileName
    self.digest = digest
    self.arrangement = arrangement
  }

  package func placed(by arrangement: RecordArrangement) -> RecordPath {
    arrangement == self.arrangement ? self : RecordLayout(arrangement: arrangement).path(of: self)
  }

  /// Returns the path in an `adaptive` directory: in one of 1,024 subdirectories, or one of 32 if `isNarrow`.
  package func placed(isNarrow: Bool) -> RecordPath {
    if arrangement == .adaptive, subdirectory.utf8.count == (isNarrow ? 1 : 2) { return self }
    let name = isNarrow ? SpreadSubdirectory(digest).narrowName : SpreadSubdirectory(digest).name
    return RecordPath(subdirectory: name, fileName: fileName, digest: digest, by: .adaptive)
  }

  /// The path relative to the root, such as `ab/abcdef`.
  public var relative: String { subdirectory.isEmpty ? fileName : subdirectory + "/" + fileName }
}

extension RecordPath: Hashable {
  public static func == (a: RecordPath, b: RecordPath) -> Bool {
    a.digest == b.digest && a.fileName.hasSameBytes(as: b.fileName) && a.subdirectory.hasSameBytes(as: b.subdirectory)
  }

  public func hash(into hasher: inout Hasher) {
    hasher.combine(digest)
  }
}

/// FNV-1a, 64 bits, of a record's file name.
///
/// The header contains the digest (flag 0x4), which reveals a file that was moved to another name. The digest also
/// selects the stripe that serializes changes of the key.
///
/// Source: G. Fowler, L. C. Noll, K.-P. Vo, D. Eastlake, "The FNV Non-Cryptographic Hash Algorithm"
/// (draft-eastlake-fnv), with the offset basis and the prime for 64 bits.
public enum NameDigest {
  public static func digest(ofFileName fileName: String) -> UInt64 {
    unsafe fileName.withContiguousUTF8 { bytes in unsafe digest(ofFileName: bytes.span) }
  }

  package static func digest(ofFileName bytes: Span<UInt8>) -> UInt64 {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for index in bytes.indices { hash = (hash ^ UInt64(bytes[index])) &* 0x100_0000_01b3 }
    return hash
  }
}
