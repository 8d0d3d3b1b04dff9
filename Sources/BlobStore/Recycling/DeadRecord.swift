internal import BlobRecord
internal import Posix

/// The last record of a file in the bin, which determines the records that may follow.
///
/// The successive records of a file have ascending digests, because a power cut may restore any of them. A key that is
/// replaced repeatedly is briefly an exception (`RecyclingMoment`). See Spec/Recycling.md, "The order of digests".
struct DeadRecord {
  let keyDigest: UInt64
  /// The displacement, or `nil` if this process does not know it.
  let displacement: Displacement?

  struct Displacement {
    /// The name of the record, because two records may have the same digest if others choose the keys.
    let fileName: String
    /// The time of the displacement, or an earlier one.
    let moment: RecyclingMoment
  }

  init(keyDigest: UInt64, displacement: Displacement?) {
    self.keyDigest = keyDigest
    self.displacement = displacement
  }

  init(_ file: DisplacedFile, at moment: RecyclingMoment) {
    self.init(keyDigest: file.keyDigest, displacement: Displacement(fileName: file.fileName, moment: moment))
  }

  func mayPrecede(_ next: RecordPath, at moment: RecyclingMoment) -> Bool {
    if keyDigest == next.digest, let displacement {
      return displacement.fileName.hasSameBytes(as: next.fileName) && moment.isShortlyAfter(displacement.moment)
    }
    return keyDigest < next.digest
  }
}

/// The time at which a record was displaced, or is about to be overwritten.
struct RecyclingMoment {
  /// The time according to `Files.moment`.
  let milliseconds: Int64
  /// The number of changes of all processes until then that a power cut must not undo.
  let durableChanges: Int64

  init(_ control: ControlFile, at milliseconds: Int64) {
    self.milliseconds = milliseconds
    durableChanges = control.durableChanges
  }

  /// The interval at which file systems write their journals. A power cut can undo younger changes even of new files.
  private static let journalMilliseconds: Int64 = 5000

  /// Returns whether a power cut may undo the changes between both moments, as it may without recycling.
  func isShortlyAfter(_ other: RecyclingMoment) -> Bool {
    durableChanges == other.durableChanges && milliseconds - other.milliseconds <= Self.journalMilliseconds
  }
}

extension RecordHeader {
  /// The key's digest, or `nil` if the file must not be overwritten.
  ///
  /// The record must have checksums, which distinguish it from any bytes that a power cut may leave in the file. It
  /// must not be locked, because a lock has to survive a power cut.
  var recyclableDigest: UInt64? {
    guard !isLocked, payloadChecksum != nil else { return nil }
    return keyDigest
  }
}

/// The file of a displaced record, with the facts that the recycling bin needs.
struct DisplacedFile {
  let fileName: String
  /// The size of the file, including the header.
  let byteCount: Int64
  let keyDigest: UInt64
  /// The version of the file, or `nil` if it could not reveal later writes.
  let version: FileVersion?

  /// Returns `nil` for a file with a second name, or with a record that is damaged, locked, or lacks checksums.
  init?(_ found: borrowing FoundRecord) {
    guard let file = found.file, !file.hasOtherNames, let keyDigest = found.header?.recyclableDigest else { return nil }
    fileName = found.name.fileName
    byteCount = file.byteCount
    self.keyDigest = keyDigest
    version = found.version
  }
}

/// Reserved space in the recycling bin for one file, which is already counted.
struct ReservedRoom {
  let bin: RecyclingBin
  let control: ControlFile
  let file: DisplacedFile

  /// Moves the file into the bin. The space is released if that fails.
  func put(_ name: String, in directory: borrowing Directory) throws(FileError) {
    try bin.put(name, in: directory, file, control)
  }

  func giveBack() { control.countRecycled(files: -1, bytes: -file.byteCount) }
}
