internal import BlobRecord
internal import Synchronization

/// Loads note in the index that they have used a packed record.
extension Packs: UseNotes {
  /// An exchange in memory. One that meets another record's entry, or another use, is lost.
  ///
  /// System calls: none, unless the index is being enlarged.
  func note(_ use: RecordUse, at now: UnixTime) {
    let (slot, entry, time) = (IndexSlot(word: use.slot), IndexEntry(rawValue: use.entry), IndexLayout.time(of: now))
    guard index.raiseTime(to: time, at: slot, of: entry) else { return }
    // Either this sees the growth, and the copy of the entry, or the copy sees this time.
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    guard control.growingIndex != nil else { return }
    noteInGrowing(entry.address, use.digest, time)
  }

  @inline(never)
  private func noteInGrowing(_ address: PackAddress, _ digest: UInt64, _ time: UInt32) {
    // The error of an index that cannot be opened costs the use, and the next change reports it.
    guard let growing = try? growingIndex(), let (slot, entry) = growing.find(digest, at: address) else { return }
    _ = growing.raiseTime(to: time, at: slot, of: entry)
  }

  /// Where the use of the record is noted that an entry leads to.
  ///
  /// - Returns: nil for a process that may not write to the index.
  func use(of entry: IndexEntry, at slot: IndexSlot, _ digest: UInt64) -> RecordUse? {
    guard control.isMapped else { return nil }
    return RecordUse(notes: self, digest: digest, slot: slot.word, entry: entry.rawValue)
  }
}
