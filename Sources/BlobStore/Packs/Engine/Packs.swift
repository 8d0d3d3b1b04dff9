internal import BlobRecord
internal import Locks
internal import Posix
internal import Synchronization

/// The packs of a directory and the index in force, as this process has opened them.
final class Packs: Sendable {
  let index: PackIndex
  let files: PackFiles
  let control: ControlFile
  private let growing = Lock<PackIndex?>(nil)
  /// The number of further times to ignore that a growth is due, after a growth has failed.
  private let refusals = Atomic(0)

  init(_ index: PackIndex, _ files: PackFiles, _ control: ControlFile) {
    self.index = index
    self.files = files
    self.control = control
  }

  /// A Boolean value that indicates whether the index is in force. Otherwise reads and changes of it are invalid.
  var isInForce: Bool { control.packIndexNumber == index.number }

  /// Prefetches the cache lines for a change of a key, because successive misses would cost as much as the change.
  func prefetch(forChangeOf digest: UInt64) {
    index.prefetch(digest)
    control.file.prefetch(at: ControlLayout.generationOffset(of: digest))
    control.file.prefetch(at: ControlLayout.stripeOffset(ControlLayout.stripe(of: digest)))
  }
}

// MARK: - Growth

extension Packs {
  /// Returns the index that is being filled to replace this one. Each change must be made in it first. Makes system
  /// calls only to open it.
  func growingIndex() throws -> PackIndex? {
    while let growing = control.growingIndex, growing.number != index.number {
      if let known = self.growing.withLock({ $0 }), known.number == growing.number { return known }
      if case .index(let found) = try PackIndex.open(number: growing.number, in: files.directory) {
        self.growing.withLock { $0 = found }
        return found
      }
      // The growth was aborted, or others have removed the index.
      if control.growingIndex == growing { control.settleGrowth() }
    }
    return nil
  }

  /// A Boolean value that indicates whether to attempt a growth.
  var mayGrow: Bool {
    guard index.isDueForGrowth || control.growingIndex != nil else { return false }
    return refusals.load(ordering: .relaxed) <= 0 || refusals.wrappingSubtract(1, ordering: .relaxed).oldValue <= 0
  }

  /// Delays the next growth after a failure, so that not every store waits for a stopped process.
  func postponeGrowth() { refusals.store(100, ordering: .relaxed) }
}

extension Packs: UseNotes {
  /// Stores the time of use by an atomic exchange in memory. A use is lost if the entry or its time changes
  /// concurrently. System calls: none, unless the index is being enlarged.
  func note(_ use: RecordUse, at now: UnixTime) {
    let (slot, entry, time) = (IndexSlot(word: use.slot), IndexEntry(rawValue: use.entry), IndexLayout.time(of: now))
    guard index.raiseTime(to: time, at: slot, of: entry) else { return }
    // Either this thread sees the growth and the copied entry, or the copying thread sees this time.
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    guard control.growingIndex != nil else { return }
    noteInGrowing(entry.address, use.digest, time)
  }

  @inline(never)
  private func noteInGrowing(_ address: PackAddress, _ digest: UInt64, _ time: UInt32) {
    // If the growing index cannot be opened, the use is lost, and the next change reports the error.
    guard let growing = try? growingIndex(), let (slot, entry) = growing.find(digest, at: address) else { return }
    _ = growing.raiseTime(to: time, at: slot, of: entry)
  }

  /// Returns where to store the use of a record, or `nil` if this process may not write to the index.
  func use(of entry: IndexEntry, at slot: IndexSlot, _ digest: UInt64) -> RecordUse? {
    guard control.isMapped else { return nil }
    return RecordUse(notes: self, digest: digest, slot: slot.word, entry: entry.rawValue)
  }
}
