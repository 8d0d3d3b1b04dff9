/// Where the records of a directory lie: their naming, and whether there are subdirectories.
public struct RecordLayout: Hashable, Sendable {
  public var naming: RecordNaming
  /// Whether records lie in subdirectories.
  ///
  /// A subdirectory is named by the first two UTF-16 code units of the file name.
  public var separatesDirectories: Bool

  public init(naming: RecordNaming = .encoded, separatesDirectories: Bool = true) {
    self.naming = naming
    self.separatesDirectories = separatesDirectories
  }

  /// - Complexity: O(*n*) for *n* bytes of key; no allocation where the file name is the key itself.
  public func path(for key: BlobKey) throws(KeyError) -> RecordPath {
    let fileName = try naming.fileName(for: key)
    return RecordPath(subdirectory: subdirectory(ofFileName: fileName), fileName: fileName)
  }

  /// The path of a file in `subdirectory`, if its name places a record there.
  ///
  /// An empty `subdirectory` is the root.
  public func path(ofFileName fileName: String, in subdirectory: String) -> RecordPath? {
    guard naming.accepts(fileName: fileName),
      self.subdirectory(ofFileName: fileName).utf8.elementsEqual(subdirectory.utf8)
    else { return nil }
    return RecordPath(subdirectory: subdirectory, fileName: fileName)
  }

  /// Whether a directory of this name at the root is one in which records lie.
  public func isSubdirectory(_ name: String) -> Bool {
    guard separatesDirectories, !name.isEmpty, naming.accepts(fileNameBeginning: name) else { return false }
    return subdirectory(ofFileName: name).utf8.elementsEqual(name.utf8)
  }

  /// The first two UTF-16 code units of a name, rounded up to whole scalars.
  ///
  /// It is empty for a shorter name.
  public func subdirectory(ofFileName fileName: String) -> String {
    guard separatesDirectories else { return "" }
    if let start = Self.asciiStart(of: fileName) { return start }
    var units = 0
    var end = fileName.unicodeScalars.startIndex
    while units < 2, end < fileName.unicodeScalars.endIndex {
      units += UTF16.width(fileName.unicodeScalars[end])
      fileName.unicodeScalars.formIndex(after: &end)
    }
    return units < 2 ? "" : String(fileName.unicodeScalars[..<end])
  }

  /// The first two characters if they are ASCII, as they almost always are.
  ///
  /// Then scalars need not be looked at.
  private static func asciiStart(of fileName: String) -> String? {
    unsafe fileName.withContiguousUTF8 { bytes in
      guard bytes.count >= 2, unsafe (bytes[0] | bytes[1]) < 0x80 else { return nil }
      return unsafe String(decoding: UnsafeBufferPointer(rebasing: bytes[..<2]), as: UTF8.self)
    }
  }

  /// Whether a record of this name lies in this subdirectory, by a glance.
  ///
  /// A glance suffices for names of printing ASCII characters without an escape, which almost all are. An empty
  /// subdirectory is the root.
  ///
  /// - Returns: false also where only `path(ofFileName:in:)` can tell.
  package func isPlain(fileName: Span<UInt8>, in subdirectory: Span<UInt8>) -> Bool {
    let count = fileName.count
    guard count >= 2, count <= RecordNaming.maximumFileNameBytes, fileName[0] != UInt8(ascii: ".") else { return false }
    if separatesDirectories {
      guard subdirectory.count == 2, subdirectory[0] == fileName[0], subdirectory[1] == fileName[1] else {
        return false
      }
    } else {
      guard subdirectory.isEmpty else { return false }
    }
    for index in fileName.indices {
      let byte = fileName[index]
      guard byte >= 0x20, byte < 0x7F, byte != UInt8(ascii: "%") else { return false }
    }
    return naming != .sha256 || naming.acceptsDigest(fileName)
  }
}
