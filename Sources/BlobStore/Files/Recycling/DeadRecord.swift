internal import BlobRecord
internal import Posix

/// The last record that a file in the recycling bin has held: it decides which records the file may hold next.
///
/// A file that is overwritten gets its new name on the medium before its new bytes, as the file system likes: after a power
/// cut, a name may lead to any record that the file has held since its bytes were last written out. A record of another
/// key is found damaged there, by its digest; an earlier one of the same key would be found sound. So a file holds records in
/// ascending order of their keys' digests, and never one of the same digest again. Whatever it has held is below.
///
/// But for a key that is replaced again and again, a file may take turns with another one, as long as that goes fast
/// (`RecyclingMoment`): the medium is as far behind then as it is with new files.
struct DeadRecord {
  let keyDigest: UInt64
  /// nil if this process does not know.
  let displacement: Displacement?

  /// How it lost its place.
  struct Displacement {
    /// Which record it was: callers that let strangers choose keys may be given two of one digest, which is not keyed.
    let fileName: String
    /// When it did, or earlier.
    let moment: RecyclingMoment
  }

  init(keyDigest: UInt64, displacement: Displacement?) {
    self.keyDigest = keyDigest
    self.displacement = displacement
  }

  /// - Returns: nil if the file must not be recycled.
  init?(_ file: DisplacedFile, displacedAt moment: RecyclingMoment) {
    guard let keyDigest = file.recyclableDigest else { return nil }
    self.init(keyDigest: keyDigest, displacement: Displacement(fileName: file.fileName, moment: moment))
  }

  /// Whether the file may be overwritten with a record that is to lie there.
  func mayPrecede(_ next: RecordPath, at moment: RecyclingMoment) -> Bool {
    if keyDigest == next.digest, let displacement {
      return displacement.fileName.utf8.elementsEqual(next.fileName.utf8) && moment.isShortlyAfter(displacement.moment)
    }
    return keyDigest < next.digest
  }
}

/// When a record was displaced, or is about to be followed by another one.
struct RecyclingMoment {
  /// Of a clock that only goes forward.
  let milliseconds: Int64
  /// Changes that a power cut must not undo, by all processes until then.
  let durableChanges: Int64

  init(_ control: ControlFile) {
    milliseconds = SystemClock.coarseMilliseconds()
    durableChanges = control.durableChanges
  }

  /// As often as file systems write their journals: what is younger than that, a power cut undoes with new files too.
  private static let journalMilliseconds: Int64 = 5000

  /// Whether it is so short a time after `other` that a power cut might as well have come between.
  func isShortlyAfter(_ other: RecyclingMoment) -> Bool {
    durableChanges == other.durableChanges && milliseconds - other.milliseconds <= Self.journalMilliseconds
  }
}

extension RecordHeader {
  /// The digest of the record's key, if checksums tell the record from what a power cut may leave of the file, and no lock
  /// is to outlast one; else nil: then the file is not to be overwritten.
  var recyclableDigest: UInt64? {
    guard !isLocked, payloadChecksum != nil else { return nil }
    return keyDigest
  }
}
