/// Where a record lies below the root: its subdirectory and its file name.
public struct RecordPath: Sendable {
  /// Empty for a record at the root.
  public let subdirectory: String
  public let fileName: String
  /// `NameDigest` of the file name.
  public let digest: UInt64
  /// What tells the subdirectory.
  package let arrangement: RecordArrangement

  init(subdirectory: String, fileName: String, digest: UInt64, by arrangement: RecordArrangement) {
    self.subdirectory = subdirectory
    self.fileName = fileName
    self.digest = digest
    self.arrangement = arrangement
  }

  /// Where the record of this name lies by an arrangement.
  package func placed(by arrangement: RecordArrangement) -> RecordPath {
    arrangement == self.arrangement ? self : RecordLayout(arrangement: arrangement).path(of: self)
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
/// It goes into the header (flag 0x4) and reveals a file that was moved to another name. It also selects the stripe
/// that serializes changes of the key.
///
/// Source: G. Fowler, L. C. Noll, K.-P. Vo, D. Eastlake, "The FNV Non-Cryptographic Hash Algorithm"
/// (draft-eastlake-fnv). Offset basis and prime are those for 64 bits.
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
