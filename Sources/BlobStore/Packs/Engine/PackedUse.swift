internal import BlobRecord

/// Where a load notes that it has used a packed record.
struct PackedUse: RecordUse {
  let index: PackIndex
  private let slot: IndexSlot
  private let entry: IndexEntry

  init(index: PackIndex, _ found: PackedFinding) {
    self.index = index
    slot = found.slot
    entry = found.entry
  }

  /// Moves the time of the last use: a store to memory, never back. One that meets another record's entry is lost.
  func note(at now: UnixTime) {
    let time = IndexLayout.time(of: now)
    guard index.time(at: slot) < time, index.entry(at: slot) == entry else { return }
    index.setTime(time, at: slot)
  }
}
