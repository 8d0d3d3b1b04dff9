internal import BlobRecord
internal import Locks
internal import Posix
internal import Synchronization

/// The packs of a directory and the index in force, as a process has them open.
final class Packs: Sendable {
  let index: PackIndex
  let files: PackFiles
  let control: ControlFile
  /// The index that was being filled at the last look.
  private let growing = Lock<PackIndex?>(nil)
  /// A growth that has failed is not begun again before it was due so often.
  private let refusals = Atomic(0)

  init(_ index: PackIndex, _ files: PackFiles, _ control: ControlFile) {
    self.index = index
    self.files = files
    self.control = control
  }

  /// Whether the index is still in force. If not, what was read by it, or changed in it, does not count.
  var isInForce: Bool { control.packIndexNumber == index.number }

  /// Asks the processor for the lines that a change of a key needs. They lie in tables of mebibytes, where the digest says, and
  /// one miss after the other would cost as much as the change.
  func prefetch(forChangeOf digest: UInt64) {
    index.prefetch(digest)
    control.file.prefetch(at: ControlLayout.generationOffset(of: digest))
    control.file.prefetch(at: ControlLayout.stripeOffset(ControlLayout.stripe(of: digest)))
  }
}

// MARK: - Growth

extension Packs {
  /// The index that is being filled to take this one's place, in which each change must be made first; nil if none is.
  ///
  /// System calls: none, once it is open.
  func growingIndex() throws -> PackIndex? {
    while let growing = control.growingIndex, growing.number != index.number {
      if let known = self.growing.withLock({ $0 }), known.number == growing.number { return known }
      if case .index(let found) = try PackIndex.open(number: growing.number, in: files.directory) {
        self.growing.withLock { $0 = found }
        return found
      }
      // It was given up meanwhile, or others have removed it.
      if control.growingIndex == growing { control.settleGrowth() }
    }
    return nil
  }

  /// Whether a larger index is due, and none is being filled by a process that is known to live.
  var mayGrow: Bool {
    guard index.isDueForGrowth || control.growingIndex != nil else { return false }
    return refusals.load(ordering: .relaxed) <= 0 || refusals.wrappingSubtract(1, ordering: .relaxed).oldValue <= 0
  }

  /// A growth has failed. It may have waited for a process that is stopped, and not each store shall wait so long.
  func postponeGrowth() { refusals.store(100, ordering: .relaxed) }
}

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
