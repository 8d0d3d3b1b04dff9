internal import BlobRecord
internal import Posix
internal import Synchronization

/// The subdirectories of an `adaptive` directory in which records may be stored (Spec/Architecture.md).
enum RecordPlaces: Int64 {
  /// New records are stored in one of 32 subdirectories, and no record is stored elsewhere.
  case narrow = 1
  /// New records are stored in one of 1,024 subdirectories, but earlier ones may remain in the 32.
  case mixed = 2
  /// All records are stored in the 1,024 subdirectories.
  case wide = 3
}

extension ControlFile {
  /// The number of records up to which a directory is narrow: each of the 32 subdirectories contains about 64.
  static let greatestNarrowCount: Int64 = 2048

  /// The word of a file that was made in an `adaptive` directory without records. The first change replaces it.
  static let placesOfNewFile: Int64 = 1

  /// The word that a process has written without a mapping, which is always correct.
  private static let untaggedMixedPlaces = RecordPlaces.mixed.rawValue

  /// Returns the upper bits of a word that this boot has written to this very file, or `nil` if the boot is unknown.
  /// After a power failure, and in a copy, the word may not fit the subdirectories.
  static func placesTag(of file: SharedFile) -> Int64? {
    SystemBoot.identifier.map { Int64(bitPattern: ($0.x ^ $0.y ^ file.inode &* 0x9E37_79B9_7F4A_7C15) & ~3) }
  }

  /// The places of records, or `nil` if a lookup must search both and no change has determined them yet.
  var places: RecordPlaces? {
    guard isReadable, let placesTag else { return nil }
    let word = word(at: ControlLayout.placesOffset)
    if word == Self.untaggedMixedPlaces { return .mixed }
    return word & ~3 == placesTag ? RecordPlaces(rawValue: word & 3) : nil
  }

  /// Determines the places before this process changes a record, and widens a directory with many records.
  ///
  /// No record is stored while the word is unknown, so that the exchange succeeds only if the listing is still true.
  ///
  /// System calls: none, or those of listing the root after a boot, or if the control file was lost.
  func updatePlaces(in directory: borrowing Directory) throws(FileError) {
    guard isMapped, let placesTag else { return }
    switch places {
    case .narrow:
      guard let records = counters?.records, records > Self.greatestNarrowCount else { return }
      setPlaces(.mixed, ifThey: .narrow)
    case .mixed, .wide: break
    case nil:
      let word = word(at: ControlLayout.placesOffset)
      let found = word == Self.placesOfNewFile ? .narrow : try directory.recordPlaces()
      exchangePlaces(word, for: placesTag | found.rawValue)
    }
  }

  /// Makes the directory mixed before a process that cannot map the file stores a record. Processes that map the file
  /// change nothing as long as it holds the key.
  func mixPlacesWithoutMapping() throws(FileError) {
    guard !isMapped, !file.isDamaged else { return }
    do {
      try file.write(Self.untaggedMixedPlaces, at: ControlLayout.placesOffset)
    } catch {
      // The page has no blocks, so that the word is 0.
      guard error.isLackOfRoom else { throw error }
    }
  }

  /// Corrects the places after a walk has found a subdirectory that others have made, for example a backup program.
  func correctPlaces(for subdirectory: String) {
    setPlaces(.mixed, ifThey: SpreadSubdirectory.isNarrowName(subdirectory) ? .wide : .narrow)
  }

  func setPlaces(_ places: RecordPlaces, ifThey old: RecordPlaces) {
    guard isMapped, let placesTag else { return }
    exchangePlaces(placesTag | old.rawValue, for: placesTag | places.rawValue)
  }

  private func exchangePlaces(_ old: Int64, for new: Int64) {
    counter(ControlLayout.placesOffset) {
      _ = $0.compareExchange(expected: old, desired: new, ordering: .sequentiallyConsistent)
    }
  }
}

extension Directory {
  /// Returns the places of the existing records. Without permission to list them, that is `mixed`.
  fileprivate borrowing func recordPlaces() throws(FileError) -> RecordPlaces {
    let layout = RecordLayout(arrangement: .spread)
    var (hasNarrow, hasWide) = (false, false)
    do {
      var entries = try entries()
      while try entries.advance() {
        let name = entries.entry.name
        hasNarrow = hasNarrow || SpreadSubdirectory.isNarrowName(name)
        hasWide = hasWide || layout.isSubdirectory(name)
      }
    } catch {
      guard error.errno == .permissionDenied else { throw error }
      return .mixed
    }
    return hasWide ? hasNarrow ? .mixed : .wide : .narrow
  }
}
