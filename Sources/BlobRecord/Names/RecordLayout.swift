/// The layout of a directory of records: their naming, and their arrangement in subdirectories.
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

  /// A Boolean value that indicates whether records are stored in subdirectories.
  ///
  /// It is `useDirectorySeparation` of SPTPersistentCache. The value `true` changes only a flat arrangement, to
  /// `prefix`, and `false` changes any other arrangement to `flat`.
  public var separatesDirectories: Bool {
    get { arrangement != .flat }
    set {
      if newValue != separatesDirectories { arrangement = newValue ? .prefix : .flat }
    }
  }

  /// Returns the path of the record for a key.
  ///
  /// - Complexity: O(*n*) for *n* bytes of key. No memory is allocated if the file name is the key itself.
  public func path(for key: BlobKey) throws(KeyError) -> RecordPath {
    let fileName = try naming.fileName(for: key)
    let digest = NameDigest.digest(ofFileName: fileName)
    return RecordPath(
      subdirectory: subdirectory(ofFileName: fileName, digest: digest), fileName: fileName, digest: digest,
      by: arrangement)
  }

  /// Returns the path of a file in a subdirectory (empty for the root), or `nil` if no such record belongs there.
  public func path(ofFileName fileName: String, in subdirectory: String) -> RecordPath? {
    guard naming.accepts(fileName: fileName) else { return nil }
    let digest = NameDigest.digest(ofFileName: fileName)
    guard
      self.subdirectory(ofFileName: fileName, digest: digest).utf8.elementsEqual(subdirectory.utf8)
        || arrangement == .adaptive && SpreadSubdirectory(digest).narrowName == subdirectory
    else { return nil }
    return RecordPath(subdirectory: subdirectory, fileName: fileName, digest: digest, by: arrangement)
  }

  package func path(ofFileName fileName: String) -> RecordPath? {
    guard naming.accepts(fileName: fileName) else { return nil }
    let digest = NameDigest.digest(ofFileName: fileName)
    return RecordPath(
      subdirectory: subdirectory(ofFileName: fileName, digest: digest), fileName: fileName, digest: digest,
      by: arrangement)
  }

  func path(of other: RecordPath) -> RecordPath {
    RecordPath(
      subdirectory: subdirectory(ofFileName: other.fileName, digest: other.digest), fileName: other.fileName,
      digest: other.digest, by: arrangement)
  }

  /// Returns a Boolean value that indicates whether a directory with this name at the root can contain records.
  public func isSubdirectory(_ name: String) -> Bool {
    switch arrangement {
    case .flat: return false
    case .spread: return SpreadSubdirectory.isName(name)
    case .adaptive: return SpreadSubdirectory.isName(name) || SpreadSubdirectory.isNarrowName(name)
    case .prefix:
      guard !name.isEmpty, naming.accepts(fileNameBeginning: name) else { return false }
      return Self.start(ofFileName: name).utf8.elementsEqual(name.utf8)
    }
  }

  /// Returns the name of the subdirectory for a file name, or an empty string for the root. With `adaptive`, a file may
  /// also be in the subdirectory named by the first digit.
  public func subdirectory(ofFileName fileName: String) -> String {
    subdirectory(ofFileName: fileName, digest: NameDigest.digest(ofFileName: fileName))
  }

  private func subdirectory(ofFileName fileName: String, digest: UInt64) -> String {
    switch arrangement {
    case .prefix: Self.start(ofFileName: fileName)
    case .spread, .adaptive: SpreadSubdirectory(digest).name
    case .flat: ""
    }
  }

  /// Returns the only subdirectory that can contain files with this prefix, or an empty string if it is not unique.
  package func subdirectory(ofFileNamesBeginning beginning: String) -> String {
    arrangement == .prefix ? Self.start(ofFileName: beginning) : ""
  }

  package func mayHold(fileNamesBeginning beginning: String, in subdirectory: String) -> Bool {
    arrangement != .prefix || subdirectory.utf8.starts(with: beginning.utf8)
  }

  /// The first two UTF-16 code units of a name, rounded up to whole scalars; empty for a shorter name.
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

  /// The first two characters if they are ASCII, the usual case, in which no scalars have to be decoded.
  private static func asciiStart(of fileName: String) -> String? {
    unsafe fileName.withContiguousUTF8 { bytes in
      guard bytes.count >= 2, unsafe (bytes[0] | bytes[1]) < 0x80 else { return nil }
      return unsafe String(decoding: UnsafeBufferPointer(rebasing: bytes[..<2]), as: UTF8.self)
    }
  }

  /// Returns `true` if a fast check proves that a record with this name belongs in this subdirectory.
  ///
  /// The check covers names of printing ASCII characters and, under `encoded`, their escapes, as in URLs. If the
  /// result is `false`, only `path(ofFileName:in:)` can decide.
  package func isPlain(fileName: Span<UInt8>, digest: UInt64, in subdirectory: Span<UInt8>) -> Bool {
    guard isPlain(fileName: fileName) else { return false }
    guard arrangement != .flat else { return subdirectory.isEmpty }
    let start = arrangement == .prefix ? (fileName[0], fileName[1]) : SpreadSubdirectory(digest).digits
    guard !subdirectory.isEmpty, subdirectory[0] == start.0 else { return false }
    return subdirectory.count == 2 ? subdirectory[1] == start.1 : arrangement == .adaptive && subdirectory.count == 1
  }

  /// Returns `true` if a fast check proves that the name is valid; otherwise only `path(ofFileName:)` can decide.
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

/// The arrangement of records in subdirectories: Spec/RecordFormat.md, "Subdirectories".
public enum RecordArrangement: String, CaseIterable, Sendable {
  /// A subdirectory for the first two UTF-16 code units of the file name, as in SPTPersistentCache.
  ///
  /// Keys with a common prefix, such as URLs, share a subdirectory, whose records a collection reads after any change.
  case prefix
  /// 1,024 subdirectories, selected by the low ten bits of the file name's digest.
  case spread
  /// 32 subdirectories while the directory is small, and those of `spread` for the keys that are stored after that; the
  /// default of new directories.
  case adaptive
  /// No subdirectories: all records are stored at the root.
  case flat
}

/// The subdirectory of a digest: its lowest ten bits as two digits of base 32, `0` to `9` and `a` to `v`.
///
/// In FNV-1a, numbers at the end of names affect the low bits most. With 1,024 subdirectories and a million records,
/// each contains about a thousand, and a collection reads a thousand headers after one store.
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

  /// The subdirectory's name in an `adaptive` directory with few records.
  var narrowName: String { String(UnicodeScalar(digits.0)) }

  static func isName(_ name: String) -> Bool { name.utf8.count == 2 && consistsOfDigits(name) }

  package static func isNarrowName(_ name: String) -> Bool { name.utf8.count == 1 && consistsOfDigits(name) }

  private static func consistsOfDigits(_ name: String) -> Bool {
    name.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x76).contains($0) }
  }

  private static func digit(ofLowBits bits: UInt64) -> UInt8 {
    let value = UInt8(truncatingIfNeeded: bits & 31)
    return value + (value < 10 ? 0x30 : 0x57)
  }
}
