internal import BlobRecord
internal import Posix
internal import Synchronization
internal import SystemPackage

/// The marks of walked subdirectories, which let the next collection skip those in which no record can be due.
///
/// A mark is valid as long as the change time of the subdirectory equals the time before the walk. Any program that
/// creates, replaces, or removes a file changes that time, but a change of a header does not. Two such changes can
/// make a record due earlier than the mark states: an unlock, and a touch that moves a time back. Both lower the mark
/// first, and no mark is opened while one of them is in progress. An extension that makes its file longer invalidates
/// the mark in the same way. A header that another program changes in place is noticed only by the next collection
/// that examines everything, at most a day later.
///
/// Only the holder of the collector's lock creates and uses marks, but any writer may lower them.
struct SubdirectoryMarks {
  struct Mark {
    var changeTime: Int64
    var inode: UInt64
    /// The oldest update time of records with the default expiration, or modification time of damaged files.
    var oldestUpdate = Int64.max
    /// The time at which the first of the other records expires.
    var earliestExpiry = Int64.max
    var records: Int64 = 0
    var bytes: Int64 = 0
  }

  /// More records than any real subdirectory has, a bound that keeps the sum of all marks from overflowing.
  private static let mostRecords: Int64 = 1 << 40

  private enum Word: Int {
    case tag, changeTime, inode, judge, oldestUpdate, earliestExpiry, records, bytes
  }

  private let control: ControlFile
  /// A digest of the trusted owners and the layout, which determine the files that count as records.
  private let judge: Int64
  private let defaultExpiration: Int64
  private let sharing: BlobStore.Sharing

  /// Creates the marks, or returns `nil` if the control file is not mapped.
  init?(_ control: ControlFile, _ layout: RecordLayout, defaultExpiration: Int64, sharing: BlobStore.Sharing) {
    guard control.isMapped else { return nil }
    self.control = control
    self.sharing = sharing
    self.defaultExpiration = defaultExpiration
    let owners = control.file.owners
    let group = owners.group.map { "\($0.rawValue)" } ?? ""
    // Without a suffix for `prefix`, because its marks existed before there were other arrangements.
    let arrangement = layout.arrangement == .prefix ? "" : ":\(layout.arrangement.rawValue)"
    let text =
      "\(owners.caller.rawValue):\(owners.directoryOwner.rawValue):\(group):\(layout.naming.rawValue)\(arrangement)"
    judge = Int64(bitPattern: NameDigest.digest(ofFileName: text))
  }

  /// Returns the mark of a subdirectory, or `nil` if it has no valid mark or a record in it may be due.
  func current(_ name: String, _ status: Stat, at now: UnixTime) -> Mark? {
    let tag = Self.tag(name)
    guard let slot = slots(of: tag).first(where: { word(.tag, $0) == tag }) else { return nil }
    let mark = Mark(
      changeTime: word(.changeTime, slot), inode: UInt64(bitPattern: word(.inode, slot)),
      oldestUpdate: word(.oldestUpdate, slot), earliestExpiry: word(.earliestExpiry, slot),
      records: word(.records, slot), bytes: Int64(shared: word(.bytes, slot)))
    guard mark.changeTime != 0, mark.changeTime == status.changeNanoseconds, mark.inode == status.inodeNumber,
      word(.judge, slot) == judge, now.seconds <= mark.earliestExpiry,
      now <= UnixTime(seconds: mark.oldestUpdate).advanced(bySeconds: defaultExpiration),
      (0...Self.mostRecords).contains(mark.records), mark.bytes >= 0
    else { return nil }
    return mark
  }

  /// Opens a mark for a subdirectory, whose status was read before the walk.
  ///
  /// Returns `nil` if a further change might not alter the recent change time, or if a header is being changed, which
  /// the walk may read before the change.
  func open(_ name: String, _ status: Stat, systemTime: Int64) -> Mark? {
    let tag = Self.tag(name)
    let candidates = slots(of: tag)
    do {
      try control.file.allocate(Self.offset(.tag, candidates.lowerBound))
    } catch {
      // On a full volume, the next collection walks the subdirectory again.
      return nil
    }
    let slot =
      candidates.first { word(.tag, $0) == tag } ?? candidates.first { word(.tag, $0) == 0 }
      ?? candidates.lowerBound + Int(UInt64(bitPattern: tag) >> 62)
    // The order keeps the old mark's times from being used with the new mark.
    set(.changeTime, slot, 0)
    set(.oldestUpdate, slot, .max)
    set(.earliestExpiry, slot, .max)
    set(.tag, slot, tag)
    // Checked now, because a change that begins later lowers the values that were just set.
    guard Stat.isPast(status.changeNanoseconds, at: systemTime), !control.hasHeaderChanges(sharing) else { return nil }
    return Mark(changeTime: status.changeNanoseconds, inode: status.inodeNumber)
  }

  /// Closes the mark of a walked subdirectory in which no file needs to be examined again.
  func close(_ name: String, _ mark: Mark) {
    let tag = Self.tag(name)
    guard let slot = slots(of: tag).first(where: { word(.tag, $0) == tag }) else { return }
    lower(.oldestUpdate, slot, mark.oldestUpdate)
    lower(.earliestExpiry, slot, mark.earliestExpiry)
    set(.inode, slot, Int64(bitPattern: mark.inode))
    set(.judge, slot, judge)
    set(.records, slot, mark.records)
    set(.bytes, slot, mark.bytes)
    set(.changeTime, slot, mark.changeTime)
  }
}

extension SubdirectoryMarks.Mark {
  mutating func add(_ header: RecordHeader, byteCount: Int64) {
    records += 1
    bytes.saturatingAdd(byteCount)
    // A locked record does not expire, and unlocking it lowers the mark.
    guard !header.isLocked else { return }
    if header.ttl == 0 {
      oldestUpdate = min(oldestUpdate, header.lastUpdate.seconds)
    } else {
      earliestExpiry = min(earliestExpiry, header.expiry(defaultExpiration: 0).seconds)
    }
  }

  mutating func add(damaged modified: UnixTime, byteCount: Int64) {
    records += 1
    bytes.saturatingAdd(byteCount)
    oldestUpdate = min(oldestUpdate, modified.seconds)
  }
}

extension RecordHeader {
  /// Returns whether a record may be due before the time in a mark if its header is replaced by this one.
  func mayExpireEarlier(than before: RecordHeader) -> Bool {
    !isLocked && (before.isLocked || lastUpdate < before.lastUpdate)
  }
}

extension SubdirectoryMarks {
  /// Allocates the page of a subdirectory's marks if there are any. A slot without a mark is not lowered, because its
  /// page may be a hole, and no collection relies on a mark that is opened during the change.
  static func prepareToLower(_ control: ControlFile, _ subdirectory: String) throws(FileError) {
    let slots = slotNumbers(of: tag(subdirectory))
    guard slots.contains(where: { control.word(at: offset(.tag, $0)) != 0 }) else { return }
    try control.file.allocate(offset(.tag, slots.lowerBound))
  }

  static func lower(_ control: ControlFile, _ subdirectory: String, _ header: RecordHeader) {
    // Lowers all slots that may be the subdirectory's, because a mark that is too low costs only a walk.
    for slot in slotNumbers(of: tag(subdirectory)) {
      if header.ttl == 0 {
        lower(control, .oldestUpdate, slot, header.lastUpdate.seconds)
      } else {
        lower(control, .earliestExpiry, slot, header.expiry(defaultExpiration: 0).seconds)
      }
    }
  }

  /// Makes the next collection walk a subdirectory.
  static func end(_ control: ControlFile, _ subdirectory: String) {
    for slot in slotNumbers(of: tag(subdirectory)) { lower(control, .earliestExpiry, slot, .min) }
  }

  /// Returns the tag of a name, which is never 0, the tag of an empty slot.
  private static func tag(_ name: String) -> Int64 {
    Int64(bitPattern: NameDigest.digest(ofFileName: name) | 1)
  }

  private static func slotNumbers(of tag: Int64) -> Range<Int> {
    let sets = UInt64(ControlLayout.markCount / ControlLayout.marksPerSet)
    let first = Int(UInt64(bitPattern: tag) >> 1 % sets) * ControlLayout.marksPerSet
    return first..<first + ControlLayout.marksPerSet
  }

  private func slots(of tag: Int64) -> Range<Int> { Self.slotNumbers(of: tag) }

  private static func offset(_ word: Word, _ slot: Int) -> Int {
    ControlLayout.marksOffset + slot * ControlLayout.markByteCount + word.rawValue * 8
  }

  private func word(_ word: Word, _ slot: Int) -> Int64 { control.word(at: Self.offset(word, slot)) }

  private func set(_ word: Word, _ slot: Int, _ value: Int64) {
    control.counter(Self.offset(word, slot)) { $0.store(value, ordering: .sequentiallyConsistent) }
  }

  private func lower(_ word: Word, _ slot: Int, _ value: Int64) { Self.lower(control, word, slot, value) }

  private static func lower(_ control: ControlFile, _ word: Word, _ slot: Int, _ value: Int64) {
    guard control.word(at: offset(.tag, slot)) != 0 else { return }
    control.counter(offset(word, slot)) { current in
      // The value is almost always low enough already, and reading it shares the cache line.
      guard current.load(ordering: .sequentiallyConsistent) > value else { return }
      current.min(value, ordering: .sequentiallyConsistent)
    }
  }
}

extension ControlFile {
  /// Changes a header so that the record may expire earlier, and leaves no wrong mark even if the process dies.
  ///
  /// A mark that was opened before is lowered, and the counted change prevents new marks. The walk of a mark that is
  /// opened later reads the new header.
  func loweringMarks(of subdirectory: String, for header: RecordHeader, _ change: () throws -> Void) throws {
    try countingChange(of: subdirectory, change) { SubdirectoryMarks.lower(self, subdirectory, header) }
  }

  /// Makes a file longer, and invalidates its mark, because marks contain sizes and the change time does not show it.
  func endingMarks(of subdirectory: String, _ change: () throws -> Void) throws {
    try countingChange(of: subdirectory, change) { SubdirectoryMarks.end(self, subdirectory) }
  }

  private func countingChange(of subdirectory: String, _ change: () throws -> Void, lower: () -> Void) throws {
    guard isMapped, !subdirectory.isEmpty else { return try change() }
    try SubdirectoryMarks.prepareToLower(self, subdirectory)
    headerChangesHere.wrappingAdd(1, ordering: .sequentiallyConsistent)
    addHeaderChanges(1)
    defer {
      addHeaderChanges(-1)
      headerChangesHere.wrappingSubtract(1, ordering: .sequentiallyConsistent)
    }
    lower()
    try change()
  }

  private func addHeaderChanges(_ change: Int64) {
    counter(ControlLayout.headerChangesOffset) { _ = $0.wrappingAdd(change, ordering: .sequentiallyConsistent) }
  }

  /// Returns whether a change of a header is in progress, or a process has died during one. An exclusive store cannot
  /// distinguish the two by stripes, but makes all changes itself.
  func hasHeaderChanges(_ sharing: BlobStore.Sharing) -> Bool {
    switch sharing {
    case .exclusive: headerChangesHere.load(ordering: .sequentiallyConsistent) != 0
    case .shared:
      counter(ControlLayout.headerChangesOffset) { $0.load(ordering: .sequentiallyConsistent) } != 0
    }
  }

  /// Forgets the changes of dead processes. The caller holds all stripes, so no change is in progress.
  func forgetHeaderChanges() {
    counter(ControlLayout.headerChangesOffset) { $0.store(0, ordering: .sequentiallyConsistent) }
  }
}
