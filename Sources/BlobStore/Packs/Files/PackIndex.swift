internal import BlobRecord
internal import Posix
internal import Synchronization

/// The index of the packs: the address of the current record of each name, and the time of its last use.
///
/// The index is a hash table in shared memory. A bucket is a cache line, and an entry is one word. A change of an
/// entry holds the stripe of its name. A read holds no lock, and reads the entry again afterwards.
///
/// The index may contain arbitrary bytes, because an entry is used only if the record at its address confirms it.
final class PackIndex: Sendable {
  /// A random number that identifies the index.
  let number: UInt64
  static let numbers: ClosedRange<UInt64> = 1...1 << 63 - 1
  let seed: UInt64
  let bucketCount: Int
  let identity: FileIdentity
  private let map: MappedFile

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
  func probe(_ digest: UInt64) -> IndexProbe { IndexProbe(IndexHash(digest: digest, seed: seed), of: self) }

  func prefetch(_ digest: UInt64) {
    map.prefetch(at: IndexLayout.bucketOffset(firstBucket(of: IndexHash(digest: digest, seed: seed))))
  }

  var longestSearch: Int { min(IndexLayout.longestSearch, bucketCount) }

  func firstBucket(of hash: IndexHash) -> Int { Int(truncatingIfNeeded: hash.bucket(of: UInt64(bucketCount))) }

  func bucket(after bucket: Int) -> Int { bucket &+ 1 == bucketCount ? 0 : bucket &+ 1 }

  /// Returns a bit for each entry of a bucket that seems to have a tag. One access for all entries saves bounds checks.
  func matches(of tag: UInt16, in bucket: Int) -> UInt8 {
    unsafe map.withWords(at: IndexLayout.bucketOffset(bucket), count: IndexLayout.entriesPerBucket) { words in
      var matches: UInt8 = 0
      for index in 0..<IndexLayout.entriesPerBucket {
        // Relaxed, because a matching entry is read again with acquire ordering, which also detects empty entries.
        let entry = IndexEntry(rawValue: unsafe words[index].load(ordering: .relaxed))
        matches |= (entry.tag == tag ? 1 : 0) &<< UInt8(truncatingIfNeeded: index)
      }
      return matches
    }
  }

  /// Returns whether an insertion has continued with the next bucket.
  func hasOverflown(_ bucket: Int) -> Bool {
    // Relaxed, because the word was set before any entry was published in a later bucket.
    word(IndexLayout.bucketOffset(bucket) &+ IndexLayout.overflowOffset, UInt32.self) { $0.load(ordering: .relaxed) }
      != 0
  }

  func tag(of digest: UInt64) -> UInt16 { IndexHash(digest: digest, seed: seed).tag }

  func find(_ digest: UInt64, at address: PackAddress) -> (slot: IndexSlot, entry: IndexEntry)? {
    var probe = probe(digest)
    while let found = probe.next(in: self) { if found.entry.address == address { return found } }
    return nil
  }

  func entry(at slot: IndexSlot) -> IndexEntry {
    // Acquires the salt, the time and the table entry of the record that the entry has published.
    IndexEntry(rawValue: word(slot.entryOffset, UInt64.self) { $0.load(ordering: .acquiring) })
  }

  /// Returns whether an entry is unchanged since it was read. If the index is in force afterwards, the record was
  /// current at this moment, even if its chunk was reused since.
  func isUnchanged(_ entry: IndexEntry, at slot: IndexSlot) -> Bool {
    // The fence keeps reads of the record before this read of the entry. Otherwise a chunk that was reused in between
    // could show its new bytes under the old entry.
    atomicMemoryFence(ordering: .acquiring)
    // Acquiring, so that the number of the index in force is read after it.
    return word(slot.entryOffset, UInt64.self) { $0.load(ordering: .acquiring) } == entry.rawValue
  }
}

// MARK: - Changing

extension PackIndex {
  /// Exchanges an entry, which publishes, replaces or removes a record. Returns `false` if the slot has another entry.
  func compareExchange(at slot: IndexSlot, _ expected: IndexEntry, _ desired: IndexEntry) -> Bool {
    let isExchanged = word(slot.entryOffset, UInt64.self) {
      // Releases the record, its salt and its time to readers of the entry.
      $0.compareExchange(expected: expected.rawValue, desired: desired.rawValue, ordering: .releasing).exchanged
    }
    if isExchanged, expected.isEmpty != desired.isEmpty { countEntries(desired.isEmpty ? -1 : 1) }
    return isExchanged
  }

  /// Inserts an entry for a new name without moving other entries. Returns `nil` if the index has to grow.
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

  /// Takes a slot if it is empty, because insertions under other stripes may compete for it.
  private func take(_ slot: IndexSlot, _ entry: IndexEntry, _ time: UInt32) -> Bool {
    guard word(slot.entryOffset, UInt64.self, { $0.load(ordering: .relaxed) }) == 0 else { return false }
    // Before the entry, so that no reader finds the time of the previous entry.
    setTime(time, at: slot)
    guard compareExchange(at: slot, .empty, entry) else { return false }
    // A competing insertion may have overwritten the time in the meantime.
    if self.time(at: slot) != time { setTime(time, at: slot) }
    return true
  }

  /// Marks a bucket before an entry is inserted after it, so that no search ends too early.
  private func noteOverflow(_ bucket: Int) {
    let offset = IndexLayout.bucketOffset(bucket) &+ IndexLayout.overflowOffset
    // A cache line that is only read stays in the caches of all processors.
    guard !hasOverflown(bucket) else { return }
    word(offset, UInt32.self) { $0.store(1, ordering: .relaxed) }
  }
}

// MARK: - All entries

extension PackIndex {
  /// Calls a closure with each entry in use, in O(*n*) for *n* buckets.
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
  /// A Boolean value that indicates whether no entry is in use. All buckets are read, in O(*n*), because the count
  /// may include entries of killed processes.
  var hasNoEntries: Bool {
    var isEmpty = true
    forEachEntry { _ in isEmpty = false }
    return isEmpty
  }
}

// MARK: - All buckets

extension PackIndex {
  private static let wordsPerBucket = IndexLayout.bucketByteCount / 8

  /// Returns a copy of the words of some buckets. During concurrent changes, each word is either old or new.
  func copiedBuckets(_ buckets: Range<Int>) -> [UInt64] {
    let count = buckets.count * Self.wordsPerBucket
    return unsafe map.withWords(at: IndexLayout.bucketOffset(buckets.lowerBound), count: count) { words in
      (0..<count).map { unsafe words[$0].load(ordering: .relaxed) }
    }
  }

  /// Fills empty buckets of an index that is not in force, from an index with the same seed and number of buckets.
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
  enum Publication {
    case isThere
    /// The record is published in place of the given entry, if any.
    case published(over: IndexEntry?)
    case isFull
  }

  /// Exchanges or inserts the entry of a name, under the stripe of the name.
  ///
  /// - Parameter keepsTime: A Boolean value that indicates whether to preserve a later time of the old record.
  func publish(
    _ byteCount: Int, at address: PackAddress, _ digest: UInt64, over old: PackAddress?, time: UInt32,
    keepsTime: Bool = false
  ) -> Publication {
    if find(digest, at: address) != nil { return .isThere }
    let entry = IndexEntry(tag: tag(of: digest), byteCount: byteCount, address: address)
    while let old, let (slot, current) = find(digest, at: old) {
      guard compareExchange(at: slot, current, entry) else { continue }
      // After the exchange, because this is no use of the old record. Until then, readers use the new update time.
      if keepsTime { _ = raiseTime(to: time, at: slot, of: entry) } else { setTime(time, at: slot) }
      return .published(over: current)
    }
    return insert(entry, digest, time: time) == nil ? .isFull : .published(over: nil)
  }

  /// Removes and returns the entry that leads a name to an address, under the stripe of the name.
  func remove(_ digest: UInt64, at address: PackAddress) -> IndexEntry? {
    while let (slot, entry) = find(digest, at: address) {
      if compareExchange(at: slot, entry, .empty) { return entry }
    }
    return nil
  }

  func setTime(_ time: UInt32, of digest: UInt64, at address: PackAddress) {
    if let (slot, _) = find(digest, at: address) { setTime(time, at: slot) }
  }
}

// MARK: - Times of use

// Relaxed, because times are hints. A lost update, or the time of an earlier record, costs only one use.
extension PackIndex {
  /// Returns the time of the last use of an entry, in the unit of `IndexLayout.use`.
  func time(at slot: IndexSlot) -> UInt32 { word(slot.timeOffset, UInt32.self) { $0.load(ordering: .relaxed) } }

  func setTime(_ time: UInt32, at slot: IndexSlot) {
    word(slot.timeOffset, UInt32.self) { $0.store(time, ordering: .relaxed) }
  }

  /// Raises the time while the slot contains an entry. Returns `false` if there is nothing to change.
  func raiseTime(to time: UInt32, at slot: IndexSlot, of entry: IndexEntry) -> Bool {
    let seen = self.time(at: slot)
    guard seen < time, self.entry(at: slot).rawValue == entry.rawValue else { return false }
    return exchangeTime(seen, time, at: slot)
  }

  /// Sets the time if it is unchanged since it was read, because the thread may have been stopped for hours in between.
  func exchangeTime(_ expected: UInt32, _ desired: UInt32, at slot: IndexSlot) -> Bool {
    word(slot.timeOffset, UInt32.self) {
      $0.compareExchange(expected: expected, desired: desired, ordering: .relaxed).exchanged
    }
  }
}

// MARK: - Growth

extension PackIndex {
  /// The approximate number of entries in use, because a killed process may not have counted a change.
  var entryCount: Int {
    max(0, Int(word(IndexLayout.entriesInUseOffset, Int64.self) { $0.load(ordering: .relaxed) }))
  }

  private func countEntries(_ change: Int64) {
    word(IndexLayout.entriesInUseOffset, Int64.self) { _ = $0.wrappingAdd(change, ordering: .relaxed) }
  }

  /// A Boolean value that indicates whether a larger index is due: above three quarters, searches become long.
  var isDueForGrowth: Bool {
    // A division, because the count may be any number and could overflow a multiplication.
    entryCount / IndexLayout.entriesPerBucket >= bucketCount - bucketCount / 4
  }

  var grownBucketCount: Int { bucketCount + max(1, bucketCount / 2) }

  /// Returns the number of buckets that can contain a number of entries before growth is due.
  static func bucketCount(forEntries count: Int) -> Int {
    count / (IndexLayout.entriesPerBucket * 3) * 4 + 4
  }

  var boot: SIMD2<UInt64> {
    SIMD2(
      word(IndexLayout.bootOffset, UInt64.self) { $0.load(ordering: .relaxed) },
      word(IndexLayout.bootOffset + 8, UInt64.self) { $0.load(ordering: .relaxed) })
  }
}
