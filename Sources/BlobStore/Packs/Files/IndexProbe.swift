internal import Synchronization

/// A search for the entries with the tag of a name, bucket by bucket. Only the record shows whether the name is equal.
/// The search ends even if the index contains arbitrary bytes.
struct IndexProbe: Sendable {
  private let tag: UInt16
  private var bucket: Int
  private var bucketsLeft: Int
  /// The previous bucket, and a bit for each matching entry of it that was not returned yet.
  private var looked = 0
  private var matches: UInt8 = 0

  init(_ hash: IndexHash, of index: PackIndex) {
    tag = hash.tag
    bucket = index.firstBucket(of: hash)
    bucketsLeft = index.longestSearch
  }

  /// Returns the next entry with the tag, or `nil` after the last one. Reads one cache line per bucket.
  mutating func next(in table: PackIndex) -> (slot: IndexSlot, entry: IndexEntry)? {
    while true {
      while matches != 0 {
        let slot = IndexSlot(bucket: looked, matches.trailingZeroBitCount)
        matches &= matches &- 1
        let entry = table.entry(at: slot)
        if entry.tag == tag, !entry.isEmpty { return (slot, entry) }
      }
      guard bucketsLeft > 0 else { return nil }
      looked = bucket
      matches = table.matches(of: tag, in: bucket)
      if table.hasOverflown(bucket) {
        bucket = table.bucket(after: bucket)
        bucketsLeft &-= 1
      } else {
        bucketsLeft = 0
      }
    }
  }
}

/// A position for an entry in the index.
struct IndexSlot: Hashable, Sendable {
  /// The offset from the first bucket, in words.
  let word: Int

  init(word: Int) { self.word = word }

  init(bucket: Int, _ index: Int) { word = bucket &* (IndexLayout.bucketByteCount / 8) &+ index }

  private var bucket: Int { word / (IndexLayout.bucketByteCount / 8) }
  private var index: Int { word % (IndexLayout.bucketByteCount / 8) }

  var entryOffset: Int { IndexLayout.headerByteCount &+ 8 &* word }
  var timeOffset: Int { IndexLayout.bucketOffset(bucket) &+ IndexLayout.timesOffset &+ 4 &* index }
}
