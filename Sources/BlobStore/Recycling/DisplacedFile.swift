internal import BlobRecord

/// The file of a record that loses its place, as the recycling bin must know it.
struct DisplacedFile {
  /// Where it lay.
  let fileName: String
  /// Header included.
  let byteCount: Int64
  let keyDigest: UInt64
  /// nil if a later look would not show whether it was written to since.
  let version: FileVersion?

  /// - Returns: nil for a file that must not be overwritten. That is one with another name, or one of a record that is
  ///   damaged, locked or without checksums.
  init?(_ found: borrowing FoundRecord) {
    guard let file = found.file, !file.hasOtherNames, let keyDigest = found.header?.recyclableDigest else { return nil }
    fileName = found.name.fileName
    byteCount = file.byteCount
    self.keyDigest = keyDigest
    version = found.version
  }
}
