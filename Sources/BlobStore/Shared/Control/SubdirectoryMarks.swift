internal import BlobRecord
internal import Posix
internal import Synchronization
internal import SystemPackage

/// What collections know of subdirectories that they have walked. It is kept in the control file, so that the next
/// collection passes over those in which nothing can have become due.
///
/// A mark holds as long as the subdirectory has the change time from before the walk. Any program that makes, replaces
/// or removes a file in it changes that time; a change of a header does not. Only two of those can make a record due
/// earlier than the mark says: an unlock, and a touch that moves a time back. Both lower the mark first, and no mark is
/// opened while one of them is under way. An extension that makes its file longer ends the mark in the same way. A header
/// that another program changes in place goes unnoticed until the next
/// collection that walks everything, a day later at the most.
///
/// Only the holder of the collector's lock makes and uses marks; any writer lowers them.
struct SubdirectoryMarks {
  /// One subdirectory's mark, as a collection reads it and adds it up.
  struct Mark {
    var changeTime: Int64
    var inode: UInt64
    /// The oldest update time, or modification time of a damaged file, of those that last as long as the default
    /// expiration says.
    var oldestUpdate = Int64.max
    /// When the first of the other records expires.
    var earliestExpiry = Int64.max
    var records: Int64 = 0
    var bytes: Int64 = 0
  }

  /// More are not in a subdirectory: the sum of all marks is a number.
  private static let mostRecords: Int64 = 1 << 40

  /// Words of a slot.
  private enum Word: Int {
    case tag, changeTime, inode, judge, oldestUpdate, earliestExpiry, records, bytes
  }

  private let control: ControlFile
  /// Which files count as records here: a digest of the believed owners and of the layout.
  private let judge: Int64
  private let defaultExpiration: Int64
  private let sharing: BlobStore.Sharing

  /// - Returns: nil where the control file is not mapped.
  init?(_ control: ControlFile, _ layout: RecordLayout, defaultExpiration: Int64, sharing: BlobStore.Sharing) {
    guard control.isMapped else { return nil }
    self.control = control
    self.sharing = sharing
    self.defaultExpiration = defaultExpiration
    let owners = control.file.owners
    let group = owners.group.map { "\($0.rawValue)" } ?? ""
    // Marks of the arrangement by prefix are older than the others.
    let arrangement = layout.arrangement == .prefix ? "" : ":\(layout.arrangement.rawValue)"
    let text =
      "\(owners.caller.rawValue):\(owners.directoryOwner.rawValue):\(group):\(layout.naming.rawValue)\(arrangement)"
    judge = Int64(bitPattern: NameDigest.digest(ofFileName: text))
  }

  /// The mark of a subdirectory in which nothing is due; nil without a mark, or if something may be due.
  func current(_ name: String, _ status: Stat, at now: UnixTime) -> Mark? {
    let tag = Self.tag(name)
    guard let slot = slots(of: tag).first(where: { word(.tag, $0) == tag }) else { return nil }
    let mark = Mark(
      changeTime: word(.changeTime, slot), inode: UInt64(bitPattern: word(.inode, slot)),
      oldestUpdate: word(.oldestUpdate, slot), earliestExpiry: word(.earliestExpiry, slot),
      records: word(.records, slot), bytes: word(.bytes, slot))
    guard mark.changeTime != 0, mark.changeTime == status.changeNanoseconds, mark.inode == status.inodeNumber,
      word(.judge, slot) == judge, now.seconds <= mark.earliestExpiry,
      now <= UnixTime(seconds: mark.oldestUpdate).advanced(bySeconds: defaultExpiration),
      (0...Self.mostRecords).contains(mark.records), mark.bytes >= 0
    else { return nil }
    return mark
  }

  /// Opens a mark for a subdirectory that is about to be walked.
  ///
  /// - Parameter status: from before the walk.
  /// - Returns: nil if the subdirectory was changed so lately that a further change might not show in its change time.
  ///   Also nil if a header is being changed, which the walk may read before the change.
  func open(_ name: String, _ status: Stat, systemTime: Int64) -> Mark? {
    let tag = Self.tag(name)
    let candidates = slots(of: tag)
    let slot =
      candidates.first { word(.tag, $0) == tag } ?? candidates.first { word(.tag, $0) == 0 }
      ?? candidates.lowerBound + Int(UInt64(bitPattern: tag) >> 62)
    // In this order, so that the old mark's times are never taken for the new one's.
    set(.changeTime, slot, 0)
    set(.oldestUpdate, slot, .max)
    set(.earliestExpiry, slot, .max)
    set(.tag, slot, tag)
    // Now: a change that begins later lowers what was just set.
    guard Stat.isPast(status.changeNanoseconds, at: systemTime), !control.hasHeaderChanges(sharing) else { return nil }
    return Mark(changeTime: status.changeNanoseconds, inode: status.inodeNumber)
  }

  /// Closes the mark of a subdirectory that was walked, and in which nothing was left that must be looked at again.
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
  /// A record that stays.
  mutating func add(_ header: RecordHeader, byteCount: Int64) {
    records += 1
    bytes.saturatingAdd(byteCount)
    // Locked, it does not expire; unlocking it lowers the mark.
    guard !header.isLocked else { return }
    if header.ttl == 0 {
      oldestUpdate = min(oldestUpdate, header.lastUpdate.seconds)
    } else {
      earliestExpiry = min(earliestExpiry, header.expiry(defaultExpiration: 0).seconds)
    }
  }

  /// A damaged file that stays.
  mutating func add(damaged modified: UnixTime, byteCount: Int64) {
    records += 1
    bytes.saturatingAdd(byteCount)
    oldestUpdate = min(oldestUpdate, modified.seconds)
  }
}

extension RecordHeader {
  /// Whether a record that gets this header may be due before the time that a mark says.
  func mayExpireEarlier(than before: RecordHeader) -> Bool {
    !isLocked && (before.isLocked || lastUpdate < before.lastUpdate)
  }
}

extension SubdirectoryMarks {
  static func lower(_ control: ControlFile, _ subdirectory: String, _ header: RecordHeader) {
    // In all slots that may be the subdirectory's, even another's: a mark that is too low costs a walk.
    for slot in slotNumbers(of: tag(subdirectory)) {
      if header.ttl == 0 {
        lower(control, .oldestUpdate, slot, header.lastUpdate.seconds)
      } else {
        lower(control, .earliestExpiry, slot, header.expiry(defaultExpiration: 0).seconds)
      }
    }
  }

  /// Has the next collection walk a subdirectory.
  static func end(_ control: ControlFile, _ subdirectory: String) {
    for slot in slotNumbers(of: tag(subdirectory)) { lower(control, .earliestExpiry, slot, .min) }
  }

  /// Never 0, which is an empty slot's.
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
    control.counter(offset(word, slot)) { current in
      // Almost always it is as low already, and reading it shares the cache line.
      guard current.load(ordering: .sequentiallyConsistent) > value else { return }
      current.min(value, ordering: .sequentiallyConsistent)
    }
  }
}

extension ControlFile {
  /// Runs a change of a header after which the record may expire earlier. No mark may say later, even if the process
  /// dies in the middle.
  ///
  /// A mark that was opened before is lowered. While the change is under way, it is counted, and no mark is opened. The
  /// walk of a mark that is opened later meets the new header.
  func loweringMarks(of subdirectory: String, for header: RecordHeader, _ change: () throws -> Void) rethrows {
    try countingChange(of: subdirectory, change) { SubdirectoryMarks.lower(self, subdirectory, header) }
  }

  /// Runs a change after which a file is longer, which the subdirectory does not show. Marks tell sizes, so none holds.
  func endingMarks(of subdirectory: String, _ change: () throws -> Void) rethrows {
    try countingChange(of: subdirectory, change) { SubdirectoryMarks.end(self, subdirectory) }
  }

  private func countingChange(of subdirectory: String, _ change: () throws -> Void, lower: () -> Void) rethrows {
    guard isMapped, !subdirectory.isEmpty else { return try change() }
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

  /// Whether there is a change of a header under way, or a process has died making one.
  ///
  /// - Parameter sharing: exclusive stores hold no stripes that would tell the one from the other. There, all are this process's.
  func hasHeaderChanges(_ sharing: BlobStore.Sharing) -> Bool {
    switch sharing {
    case .exclusive: headerChangesHere.load(ordering: .sequentiallyConsistent) != 0
    case .shared:
      counter(ControlLayout.headerChangesOffset) { $0.load(ordering: .sequentiallyConsistent) } != 0
    }
  }

  /// Forgets the changes of processes that died making them. By the holder of all stripes, so that none is under way.
  func forgetHeaderChanges() {
    counter(ControlLayout.headerChangesOffset) { $0.store(0, ordering: .sequentiallyConsistent) }
  }
}
