internal import BlobRecord
internal import Posix

/// The last record of a file in the bin, which decides the records that may follow.
///
/// A file holds records in ascending order of digests, because a power cut may bring any of them back. A key that is
/// replaced again and again is an exception, for a short time (`RecyclingMoment`). Why: Spec/Recycling.md, "The order
/// of digests".
struct DeadRecord {
  let keyDigest: UInt64
  /// nil if this process does not know.
  let displacement: Displacement?

  /// How it lost its place.
  struct Displacement {
    /// Which record it was: where strangers choose keys, two may have one digest.
    let fileName: String
    /// When it did, or earlier.
    let moment: RecyclingMoment
  }

  init(keyDigest: UInt64, displacement: Displacement?) {
    self.keyDigest = keyDigest
    self.displacement = displacement
  }

  init(_ file: DisplacedFile, at moment: RecyclingMoment) {
    self.init(keyDigest: file.keyDigest, displacement: Displacement(fileName: file.fileName, moment: moment))
  }

  /// Whether the file may be overwritten with the record that will lie there.
  func mayPrecede(_ next: RecordPath, at moment: RecyclingMoment) -> Bool {
    if keyDigest == next.digest, let displacement {
      return displacement.fileName.hasSameBytes(as: next.fileName) && moment.isShortlyAfter(displacement.moment)
    }
    return keyDigest < next.digest
  }
}

/// When a record was displaced, or is about to be followed by another one.
struct RecyclingMoment {
  /// Of `Files.moment`.
  let milliseconds: Int64
  /// Changes that a power cut must not undo, by all processes until then.
  let durableChanges: Int64

  init(_ control: ControlFile, at milliseconds: Int64) {
    self.milliseconds = milliseconds
    durableChanges = control.durableChanges
  }

  /// How often file systems write their journals.
  ///
  /// A power cut undoes younger changes with new files too.
  private static let journalMilliseconds: Int64 = 5000

  /// Whether a power cut might as well have come between `other` and this.
  func isShortlyAfter(_ other: RecyclingMoment) -> Bool {
    durableChanges == other.durableChanges && milliseconds - other.milliseconds <= Self.journalMilliseconds
  }
}

extension RecordHeader {
  /// The key's digest, if the file may be overwritten; else nil.
  ///
  /// Checksums must tell the record from anything that a power cut may leave in the file. And there must be no lock,
  /// which would have to outlast one.
  var recyclableDigest: UInt64? {
    guard !isLocked, payloadChecksum != nil else { return nil }
    return keyDigest
  }
}

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

/// Room in the recycling bin for one file, which is counted already.
struct ReservedRoom {
  let bin: RecyclingBin
  let control: ControlFile
  let file: DisplacedFile

  /// Moves the file in; the room is given back if that fails.
  func put(_ name: String, in directory: borrowing Directory) throws(FileError) {
    try bin.put(name, in: directory, file, control)
  }

  func giveBack() { control.countRecycled(files: -1, bytes: -file.byteCount) }
}
