internal import BlobRecord
internal import Posix
internal import Synchronization

/// The index of the packs: where the current record of each name lies, and when it was used last.
///
/// It is a hash table in memory that processes share, of buckets as long as a cache line. An entry is one word. What
/// changes an entry holds the stripe of its name. What reads one holds nothing, and reads it again afterwards.
///
/// Any bytes may stand in it: an entry leads to a record only if that record says so.
final class PackIndex: Sendable {
  /// Random: it tells the index from others.
  let number: UInt64
  static let numbers: ClosedRange<UInt64> = 1...1 << 63 - 1
  let seed: UInt64
  let bucketCount: Int
  let identity: FileIdentity
  private let map: MappedFile

  /// - Parameter map: of a whole index.
  init?(_ map: consuming MappedFile, bucketCount: Int, _ identity: FileIdentity) {
    func word(_ offset: Int, _ map: borrowing MappedFile) -> UInt64 {
      map.withWord(at: offset, as: UInt64.self) { $0.load(ordering: .relaxed) }
    }
    number = word(IndexLayout.numberOffset, map)
    seed = word(IndexLayout.seedOffset, map)
    guard bucketCount > 0, Self.numbers ~= number, word(IndexLayout.bucketCountOffset, map) == UInt64(bucketCount)
    else {
      return nil
    }
    self.bucketCount = bucketCount
    self.identity = identity
    self.map = map
  }

  @inline(__always)
  private func word<Word: AtomicRepresentable, Result>(
    _ offset: Int, _ type: Word.Type, _ body: (borrowing Atomic<Word>) -> Result
  ) -> Result {
    map.withWord(at: offset, as: type, body)
  }
}

// MARK: - Searching

extension PackIndex {
  /// A search for a name by its digest.
  func probe(_ digest: UInt64) -> IndexProbe { IndexProbe(IndexHash(digest: digest, seed: seed), of: self) }

  /// Asks the processor for the bucket in which a search for a name begins.
  func prefetch(_ digest: UInt64) {
    map.prefetch(at: IndexLayout.bucketOffset(firstBucket(of: IndexHash(digest: digest, seed: seed))))
  }

  /// The most buckets that a search or an insertion looks at.
  var longestSearch: Int { min(IndexLayout.longestSearch, bucketCount) }

  func firstBucket(of hash: IndexHash) -> Int { Int(truncatingIfNeeded: hash.bucket(of: UInt64(bucketCount))) }

  func bucket(after bucket: Int) -> Int { bucket &+ 1 == bucketCount ? 0 : bucket &+ 1 }

  /// The entries of a bucket that seem to have a tag: a bit for each.
  ///
  /// They are looked at once for all five, because the bounds of each would be checked else.
  func matches(of tag: UInt16, in bucket: Int) -> UInt8 {
    unsafe map.withWords(at: IndexLayout.bucketOffset(bucket), count: IndexLayout.entriesPerBucket) { words in
      var matches: UInt8 = 0
      for index in 0..<IndexLayout.entriesPerBucket {
        // Relaxed: an entry that matches is read again, and acquires then. Empty ones are found out there too.
        let entry = IndexEntry(rawValue: unsafe words[index].load(ordering: .relaxed))
        matches |= (entry.tag == tag ? 1 : 0) &<< UInt8(truncatingIfNeeded: index)
      }
      return matches
    }
  }

  /// Whether an insertion has had to go on to the next bucket.
  func hasOverflown(_ bucket: Int) -> Bool {
    // Acquires nothing: an entry behind it that was published before this search began was so after this was set.
    word(IndexLayout.bucketOffset(bucket) &+ IndexLayout.overflowOffset, UInt32.self) { $0.load(ordering: .relaxed) }
      != 0
  }

  /// The tag of a name in this index.
  func tag(of digest: UInt64) -> UInt16 { IndexHash(digest: digest, seed: seed).tag }

  /// The entry that leads a name to an address; nil if none does.
  func find(_ digest: UInt64, at address: PackAddress) -> (slot: IndexSlot, entry: IndexEntry)? {
    var probe = probe(digest)
    while let found = probe.next(in: self) { if found.entry.address == address { return found } }
    return nil
  }

  func entry(at slot: IndexSlot) -> IndexEntry {
    // Acquires the salt, the time and the table entry of the record that the entry has published.
    IndexEntry(rawValue: word(slot.entryOffset, UInt64.self) { $0.load(ordering: .acquiring) })
  }

  /// Whether an entry is still the one that was read.
  ///
  /// If the index is in force afterwards, the record was the current one at this moment, whatever has become of its chunk
  /// since it was read.
  func isUnchanged(_ entry: IndexEntry, at slot: IndexSlot) -> Bool {
    // What was read of the record, in memory and by calls, must not be read after the entry. A chunk that was taken anew
    // in between would show its new bytes under the old entry.
    atomicMemoryFence(ordering: .acquiring)
    // Acquiring, so that what says which index is in force is read after it.
    return word(slot.entryOffset, UInt64.self) { $0.load(ordering: .acquiring) } == entry.rawValue
  }
}

// MARK: - Changing

extension PackIndex {
  /// Puts another entry in the place of one: the point at which a record is published, replaced or removed.
  ///
  /// - Parameter desired: of the same name; empty to remove it.
  /// - Returns: false, with nothing changed, if another entry stands there.
  func compareExchange(at slot: IndexSlot, _ expected: IndexEntry, _ desired: IndexEntry) -> Bool {
    let isExchanged = word(slot.entryOffset, UInt64.self) {
      // Releases the record, its salt and its time to those who find the entry.
      $0.compareExchange(expected: expected.rawValue, desired: desired.rawValue, ordering: .releasing).exchanged
    }
    if isExchanged, expected.isEmpty != desired.isEmpty { countEntries(desired.isEmpty ? -1 : 1) }
    return isExchanged
  }

  /// Inserts the entry of a name that has none. No other entry moves.
  ///
  /// - Parameters:
  ///   - entry: with the tag of the name in this index.
  ///   - digest: of the name.
  ///   - time: of its last use, as `IndexLayout.time` says.
  /// - Returns: nil if all slots are taken where a search would look: the index must grow.
  func insert(_ entry: IndexEntry, _ digest: UInt64, time: UInt32) -> IndexSlot? {
    let hash = IndexHash(digest: digest, seed: seed)
    assert(entry.tag == hash.tag && !entry.isEmpty)
    var bucket = firstBucket(of: hash)
    for _ in 0..<longestSearch {
      for index in 0..<IndexLayout.entriesPerBucket {
        let slot = IndexSlot(bucket: bucket, index)
        if take(slot, entry, time) { return slot }
      }
      noteOverflow(bucket)
      bucket = self.bucket(after: bucket)
    }
    return nil
  }

  /// Takes a slot if it is empty. Insertions of other stripes may want the same one.
  private func take(_ slot: IndexSlot, _ entry: IndexEntry, _ time: UInt32) -> Bool {
    guard word(slot.entryOffset, UInt64.self, { $0.load(ordering: .relaxed) }) == 0 else { return false }
    // Before the entry, so that no reader finds the time of what stood there before.
    setTime(time, at: slot)
    guard compareExchange(at: slot, .empty, entry) else { return false }
    // Another insertion that wanted the slot may have written its time since.
    if self.time(at: slot) != time { setTime(time, at: slot) }
    return true
  }

  /// Before an entry is put behind the bucket, so that no search ends before it.
  private func noteOverflow(_ bucket: Int) {
    let offset = IndexLayout.bucketOffset(bucket) &+ IndexLayout.overflowOffset
    // A line that is only read stays in the caches of all processors.
    guard !hasOverflown(bucket) else { return }
    word(offset, UInt32.self) { $0.store(1, ordering: .relaxed) }
  }
}

// MARK: - All entries

extension PackIndex {
  /// Calls a closure with each entry in use.
  ///
  /// - Complexity: O(*n*) for *n* buckets.
  func forEachEntry(_ body: (IndexEntry) -> Void) {
    for bucket in 0..<bucketCount {
      for index in 0..<IndexLayout.entriesPerBucket {
        let entry = entry(at: IndexSlot(bucket: bucket, index))
        if !entry.isEmpty { body(entry) }
      }
    }
  }
}

extension PackIndex {
  /// A Boolean value that indicates whether no entry is in use. All buckets are read, because killed processes leave counts behind.
  ///
  /// - Complexity: O(*n*) for *n* buckets.
  var hasNoEntries: Bool {
    var isEmpty = true
    forEachEntry { _ in isEmpty = false }
    return isEmpty
  }
}

// MARK: - All buckets

extension PackIndex {
  private static let wordsPerBucket = IndexLayout.bucketByteCount / 8

  /// The words of some buckets as they are while this runs. Changes may go on: each word is one from before a change or from after
  /// it.
  func copiedBuckets(_ buckets: Range<Int>) -> [UInt64] {
    let count = buckets.count * Self.wordsPerBucket
    return unsafe map.withWords(at: IndexLayout.bucketOffset(buckets.lowerBound), count: count) { words in
      (0..<count).map { unsafe words[$0].load(ordering: .relaxed) }
    }
  }

  /// Takes buckets over into an index that is not in force, where those are empty.
  ///
  /// - Parameters:
  ///   - buckets: of an index with the same seed and as many buckets.
  ///   - first: the number of the first of them.
  ///   - isKept: whether an entry is.
  func fill(with buckets: [UInt64], from first: Int, where isKept: (IndexEntry) -> Bool) {
    var kept: Int64 = 0
    unsafe map.withWords(at: IndexLayout.bucketOffset(first), count: buckets.count) { words in
      for (number, word) in buckets.enumerated() {
        let isEntry = number % Self.wordsPerBucket < IndexLayout.entriesPerBucket
        guard !isEntry || (word != 0 && isKept(IndexEntry(rawValue: word))) else { continue }
        unsafe words[number].store(word, ordering: .relaxed)
        if isEntry { kept += 1 }
      }
    }
    countEntries(kept)
  }
}

// MARK: - Changing under a stripe

extension PackIndex {
  /// What comes of leading a name to a record.
  enum Publication {
    case isThere
    /// With the entry that it has taken the place of.
    case published(over: IndexEntry?)
    /// The index must grow.
    case isFull
  }

  /// Leads a name to a record, in the place of another one if an entry leads there.
  ///
  /// The caller holds the stripe of the name.
  ///
  /// - Parameters:
  ///   - byteCount: what the record takes in its chunk.
  ///   - old: where the other record lies.
  ///   - time: of the last use.
  ///   - keepsTime: whether a later use of the other one counts for the record too.
  func publish(
    _ byteCount: Int, at address: PackAddress, _ digest: UInt64, over old: PackAddress?, time: UInt32,
    keepsTime: Bool = false
  ) -> Publication {
    if find(digest, at: address) != nil { return .isThere }
    let entry = IndexEntry(tag: tag(of: digest), byteCount: byteCount, address: address)
    while let old, let (slot, current) = find(digest, at: old) {
      guard compareExchange(at: slot, current, entry) else { continue }
      // Afterwards: before it, the old record would seem to be used. The new one is read with its update until then.
      if keepsTime { _ = raiseTime(to: time, at: slot, of: entry) } else { setTime(time, at: slot) }
      return .published(over: current)
    }
    return insert(entry, digest, time: time) == nil ? .isFull : .published(over: nil)
  }

  /// Removes the entry that leads a name to a record.
  ///
  /// The caller holds the stripe of the name.
  ///
  /// - Returns: nil if no entry does.
  func remove(_ digest: UInt64, at address: PackAddress) -> IndexEntry? {
    while let (slot, entry) = find(digest, at: address) {
      if compareExchange(at: slot, entry, .empty) { return entry }
    }
    return nil
  }

  /// Sets the time of the last use of a record, if an entry leads to it.
  func setTime(_ time: UInt32, of digest: UInt64, at address: PackAddress) {
    if let (slot, _) = find(digest, at: address) { setTime(time, at: slot) }
  }
}

// MARK: - Times of use

// Relaxed: a time is a hint. One of a load that is lost, or of a record that stood there before, costs a use.
extension PackIndex {
  /// When the entry at a slot was used last, as `IndexLayout.use` reads it.
  func time(at slot: IndexSlot) -> UInt32 { word(slot.timeOffset, UInt32.self) { $0.load(ordering: .relaxed) } }

  func setTime(_ time: UInt32, at slot: IndexSlot) {
    word(slot.timeOffset, UInt32.self) { $0.store(time, ordering: .relaxed) }
  }

  /// Moves the time forward, as long as the slot has the entry.
  ///
  /// - Returns: false if there is nothing to move.
  func raiseTime(to time: UInt32, at slot: IndexSlot, of entry: IndexEntry) -> Bool {
    let seen = self.time(at: slot)
    guard seen < time, self.entry(at: slot).rawValue == entry.rawValue else { return false }
    return exchangeTime(seen, time, at: slot)
  }

  /// Sets the time if it still is what was read: a load may have been stopped since, for hours.
  func exchangeTime(_ expected: UInt32, _ desired: UInt32, at slot: IndexSlot) -> Bool {
    word(slot.timeOffset, UInt32.self) {
      $0.compareExchange(expected: expected, desired: desired, ordering: .relaxed).exchanged
    }
  }
}

// MARK: - Growth

extension PackIndex {
  /// How many entries are in use, about: what a killed process did not count stays uncounted.
  var entryCount: Int {
    max(0, Int(word(IndexLayout.entriesInUseOffset, Int64.self) { $0.load(ordering: .relaxed) }))
  }

  private func countEntries(_ change: Int64) {
    word(IndexLayout.entriesInUseOffset, Int64.self) { _ = $0.wrappingAdd(change, ordering: .relaxed) }
  }

  /// Whether a larger one is due: above three quarters, searches for missing names look at ever more buckets.
  var isDueForGrowth: Bool {
    // By a division: any number may stand there.
    entryCount / IndexLayout.entriesPerBucket >= bucketCount - bucketCount / 4
  }

  /// The buckets of a larger index.
  var grownBucketCount: Int { bucketCount + max(1, bucketCount / 2) }

  /// The buckets that hold so many entries before growth is due.
  static func bucketCount(forEntries count: Int) -> Int {
    count / (IndexLayout.entriesPerBucket * 3) * 4 + 4
  }

  /// The boot of the system under which the index is believed.
  var boot: SIMD2<UInt64> {
    SIMD2(
      word(IndexLayout.bootOffset, UInt64.self) { $0.load(ordering: .relaxed) },
      word(IndexLayout.bootOffset + 8, UInt64.self) { $0.load(ordering: .relaxed) })
  }
}
