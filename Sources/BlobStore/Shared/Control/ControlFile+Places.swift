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
  static let narrowRecordLimit: Int64 = 2048

  /// The word of a file that was created in an `adaptive` directory without records. The first change replaces it.
  static let placesOfNewFile: Int64 = 1

  /// The word that a process has written without a mapping, which is always correct.
  private static let untaggedMixedPlaces = RecordPlaces.mixed.rawValue

  /// Returns the upper bits of each word that is written to this file in this boot, or `nil` if the boot is unknown.
  /// After a power failure, and in a copy of the file, the word may not correspond to the subdirectories.
  static func placesTag(of file: SharedFile) -> Int64? {
    SystemBoot.identifier.map { Int64(bitPattern: ($0.x ^ $0.y ^ file.inode &* 0x9E37_79B9_7F4A_7C15) & ~3) }
  }

  /// The places of records, or `nil` if they are unknown, so that a lookup must search both.
  var places: RecordPlaces? {
    guard isReadable, let placesTag else { return nil }
    let word = word(at: ControlLayout.placesOffset)
    if word == Self.untaggedMixedPlaces { return .mixed }
    return word & ~3 == placesTag ? RecordPlaces(rawValue: word & 3) : nil
  }

  /// Determines the places before this process changes a record, and widens a directory with many records.
  ///
  /// No record is stored while the places are unknown, so if the exchange succeeds, the listing is still valid.
  ///
  /// System calls: none. After a boot, or if the control file was lost, the root is listed.
  func updatePlaces(in directory: borrowing Directory) throws(FileError) {
    guard isMapped, let placesTag else { return }
    switch places {
    case .narrow:
      guard let records = counters?.records, records > Self.narrowRecordLimit else { return }
      changePlaces(from: .narrow, to: .mixed)
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
      // The page has no blocks, so the word is 0, and the places are unknown.
      guard error.isLackOfRoom else { throw error }
    }
  }

  /// Corrects the places for a subdirectory that a walk has found, which a backup program may have created.
  func correctPlaces(for subdirectory: String) {
    changePlaces(from: SpreadSubdirectory.isNarrowName(subdirectory) ? .wide : .narrow, to: .mixed)
  }

  func changePlaces(from old: RecordPlaces, to new: RecordPlaces) {
    guard isMapped, let placesTag else { return }
    exchangePlaces(placesTag | old.rawValue, for: placesTag | new.rawValue)
  }

  private func exchangePlaces(_ old: Int64, for new: Int64) {
    counter(ControlLayout.placesOffset) {
      _ = $0.compareExchange(expected: old, desired: new, ordering: .sequentiallyConsistent)
    }
  }
}

extension Directory {
  /// Returns the places of the existing records, or `mixed` without permission to list them.
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
