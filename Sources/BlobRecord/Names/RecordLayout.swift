/// Where the records of a directory lie: their naming, and whether there are subdirectories.
public struct RecordLayout: Hashable, Sendable {
  public var naming: RecordNaming
  public var arrangement: RecordArrangement

  public init(naming: RecordNaming = .encoded, arrangement: RecordArrangement = .prefix) {
    self.naming = naming
    self.arrangement = arrangement
  }

  public init(naming: RecordNaming = .encoded, separatesDirectories: Bool) {
    self.init(naming: naming, arrangement: separatesDirectories ? .prefix : .flat)
  }

  /// Whether records lie in subdirectories: `useDirectorySeparation` of SPTPersistentCache.
  ///
  /// To set it changes a flat arrangement to the one by prefix, and no other.
  public var separatesDirectories: Bool {
    get { arrangement != .flat }
    set {
      if newValue != separatesDirectories { arrangement = newValue ? .prefix : .flat }
    }
  }

  /// - Complexity: O(*n*) for *n* bytes of key; no allocation where the file name is the key itself.
  public func path(for key: BlobKey) throws(KeyError) -> RecordPath {
    let fileName = try naming.fileName(for: key)
    let digest = NameDigest.digest(ofFileName: fileName)
    return RecordPath(
      subdirectory: subdirectory(ofFileName: fileName, digest: digest), fileName: fileName, digest: digest,
      by: arrangement)
  }

  /// The path of a file in `subdirectory`, if its name places a record there.
  ///
  /// An empty `subdirectory` is the root.
  public func path(ofFileName fileName: String, in subdirectory: String) -> RecordPath? {
    guard naming.accepts(fileName: fileName) else { return nil }
    let digest = NameDigest.digest(ofFileName: fileName)
    guard self.subdirectory(ofFileName: fileName, digest: digest).utf8.elementsEqual(subdirectory.utf8) else {
      return nil
    }
    return RecordPath(subdirectory: subdirectory, fileName: fileName, digest: digest, by: arrangement)
  }

  /// The path of a record by its file name; nil if no record has the name.
  package func path(ofFileName fileName: String) -> RecordPath? {
    guard naming.accepts(fileName: fileName) else { return nil }
    let digest = NameDigest.digest(ofFileName: fileName)
    return RecordPath(
      subdirectory: subdirectory(ofFileName: fileName, digest: digest), fileName: fileName, digest: digest,
      by: arrangement)
  }

  /// The path of the same file name by this arrangement.
  func path(of other: RecordPath) -> RecordPath {
    RecordPath(
      subdirectory: subdirectory(ofFileName: other.fileName, digest: other.digest), fileName: other.fileName,
      digest: other.digest, by: arrangement)
  }

  /// Whether a directory of this name at the root is one in which records lie.
  public func isSubdirectory(_ name: String) -> Bool {
    switch arrangement {
    case .flat: return false
    case .spread: return SpreadSubdirectory.isName(name)
    case .prefix:
      guard !name.isEmpty, naming.accepts(fileNameBeginning: name) else { return false }
      return Self.start(ofFileName: name).utf8.elementsEqual(name.utf8)
    }
  }

  /// The subdirectory of a file; empty for the root.
  public func subdirectory(ofFileName fileName: String) -> String {
    subdirectory(ofFileName: fileName, digest: NameDigest.digest(ofFileName: fileName))
  }

  private func subdirectory(ofFileName fileName: String, digest: UInt64) -> String {
    switch arrangement {
    case .prefix: Self.start(ofFileName: fileName)
    case .spread: SpreadSubdirectory(digest).name
    case .flat: ""
    }
  }

  /// The only subdirectory in which files of this beginning may lie; empty if there are several, or none.
  package func subdirectory(ofFileNamesBeginning beginning: String) -> String {
    arrangement == .prefix ? Self.start(ofFileName: beginning) : ""
  }

  /// Whether files of this beginning may lie in a subdirectory of this name.
  package func mayHold(fileNamesBeginning beginning: String, in subdirectory: String) -> Bool {
    arrangement != .prefix || subdirectory.utf8.starts(with: beginning.utf8)
  }

  /// The first two UTF-16 code units of a name, rounded up to whole scalars.
  ///
  /// It is empty for a shorter name.
  private static func start(ofFileName fileName: String) -> String {
    if let start = asciiStart(of: fileName) { return start }
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
  /// A glance suffices for names of printing ASCII characters, and under `encoded` for their escapes, such as those in a
  /// URL's. An empty subdirectory is the root.
  ///
  /// - Parameter digest: `NameDigest` of the file name.
  /// - Returns: false also where only `path(ofFileName:in:)` can tell.
  package func isPlain(fileName: Span<UInt8>, digest: UInt64, in subdirectory: Span<UInt8>) -> Bool {
    guard isPlain(fileName: fileName) else { return false }
    guard arrangement != .flat else { return subdirectory.isEmpty }
    let start = arrangement == .prefix ? (fileName[0], fileName[1]) : SpreadSubdirectory(digest).digits
    return subdirectory.count == 2 && subdirectory[0] == start.0 && subdirectory[1] == start.1
  }

  /// Whether a record has this name, by a glance that suffices for names of at least two printing ASCII characters.
  ///
  /// - Returns: false also where only `path(ofFileName:)` can tell.
  package func isPlain(fileName: Span<UInt8>) -> Bool {
    let count = fileName.count
    guard count >= 2, count <= RecordNaming.maximumFileNameBytes, fileName[0] != UInt8(ascii: ".") else { return false }
    var index = 0
    while index < count {
      let byte = fileName[index]
      guard byte >= 0x20, byte < 0x7F else { return false }
      if byte == UInt8(ascii: "%") {
        guard naming == .encoded else { return false }
        guard NameEscapes.isEscape(in: fileName, at: index) else {
          return LongName.isTail(of: fileName, at: index)
        }
        index += 2
      }
      index += 1
    }
    return naming != .sha256 || naming.acceptsDigest(fileName)
  }
}

/// Which subdirectory a record lies in. Spec/RecordFormat.md, "Subdirectories".
public enum RecordArrangement: String, CaseIterable, Sendable {
  /// The one named by the first two UTF-16 code units of the file name, as in SPTPersistentCache.
  ///
  /// Keys with a common start, such as URLs, all lie in one. There, a collection looks at all of them after one has changed.
  case prefix
  /// One of 1,024, named by the low ten bits of the file name's digest: how new directories are arranged.
  case spread
  /// None: all records lie at the root.
  case flat
}

/// The subdirectory that a digest names: its lowest ten bits as two digits of base 32, `0` to `9` and `a` to `v`.
///
/// The low bits of FNV-1a are those in which numbers at the end of names differ most. With 1,024 subdirectories, a
/// million records lie a thousand in each, and a collection reads a thousand headers after one store.
package struct SpreadSubdirectory {
  /// The two digits in ASCII, the more significant one first.
  package let digits: (UInt8, UInt8)

  package init(_ digest: UInt64) {
    digits = (Self.digit(ofLowBits: digest >> 5), Self.digit(ofLowBits: digest))
  }

  package var name: String {
    unsafe String(unsafeUninitializedCapacity: 2) { buffer in
      unsafe buffer.initializeElement(at: 0, to: digits.0)
      unsafe buffer.initializeElement(at: 1, to: digits.1)
      return 2
    }
  }

  /// Whether some digest names a subdirectory so.
  static func isName(_ name: String) -> Bool {
    name.utf8.count == 2 && name.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x76).contains($0) }
  }

  private static func digit(ofLowBits bits: UInt64) -> UInt8 {
    let value = UInt8(truncatingIfNeeded: bits & 31)
    return value + (value < 10 ? 0x30 : 0x57)
  }
}
