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
