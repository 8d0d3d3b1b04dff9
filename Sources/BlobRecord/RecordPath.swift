/// Where a record lies below the root: its subdirectory and its file name.
public struct RecordPath: Sendable {
  /// Empty for a record at the root.
  public let subdirectory: String
  public let fileName: String
  /// `KeyDigest` of the file name.
  public let digest: UInt64

  init(subdirectory: String, fileName: String) {
    self.subdirectory = subdirectory
    self.fileName = fileName
    digest = KeyDigest.digest(ofFileName: fileName)
  }

  /// The path relative to the root, such as `ab/abcdef`.
  ///
  /// - Complexity: one allocation, unless the record lies at the root.
  public var relative: String {
    guard !subdirectory.isEmpty else { return fileName }
    let directoryCount = subdirectory.utf8.count
    // Written at once: appending string by string costs every load several times as much.
    return unsafe String(unsafeUninitializedCapacity: directoryCount + 1 + fileName.utf8.count) { buffer in
      _ = unsafe buffer.initialize(fromContentsOf: subdirectory.utf8)
      unsafe buffer[directoryCount] = UInt8(ascii: "/")
      return unsafe buffer[(directoryCount + 1)...].initialize(fromContentsOf: fileName.utf8)
    }
  }
}

extension RecordPath: Hashable {
  public static func == (a: RecordPath, b: RecordPath) -> Bool {
    a.fileName.utf8.elementsEqual(b.fileName.utf8) && a.subdirectory.utf8.elementsEqual(b.subdirectory.utf8)
  }

  public func hash(into hasher: inout Hasher) {
    hasher.combine(digest)
  }
}
