internal import BlobRecord

/// Loads note in the index that they have used a packed record.
extension PackIndex: UseNotes {
  /// A store to memory. One that meets another record's entry is lost.
  func note(_ use: RecordUse, at now: UnixTime) {
    let (slot, time) = (IndexSlot(word: use.slot), IndexLayout.time(of: now))
    guard self.time(at: slot) < time, entry(at: slot).rawValue == use.entry else { return }
    setTime(time, at: slot)
  }

  /// Where the use of the record is noted that an entry leads to.
  func use(of entry: IndexEntry, at slot: IndexSlot) -> RecordUse {
    RecordUse(notes: self, slot: slot.word, entry: entry.rawValue)
  }
}
