internal import Synchronization

/// A search for the entries of a name: those with its tag, bucket by bucket.
///
/// The tag makes it likely that the name fits; only the record tells. Any bytes of an index end it.
struct IndexProbe: Sendable {
  private let tag: UInt16
  /// The bucket that is looked at next.
  private var bucket: Int
  private var bucketsLeft: Int
  /// The bucket before, and a bit for each entry there that had the tag and is not looked at yet.
  private var looked = 0
  private var matches: UInt8 = 0

  init(_ hash: IndexHash, of index: PackIndex) {
    tag = hash.tag
    bucket = index.firstBucket(of: hash)
    bucketsLeft = index.longestSearch
  }

  /// The next entry whose tag fits; nil after the last.
  ///
  /// - Parameter table: the index that the search began in.
  /// - Complexity: a cache line for each bucket.
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

/// A place for an entry in the index: a bucket, and which of its five.
struct IndexSlot: Hashable, Sendable {
  /// Words from the first bucket on.
  let word: Int

  /// - Parameter word: of a slot that was found.
  init(word: Int) { self.word = word }

  /// - Parameter index: 0 to 4.
  init(bucket: Int, _ index: Int) { word = bucket &* (IndexLayout.bucketByteCount / 8) &+ index }

  private var bucket: Int { word / (IndexLayout.bucketByteCount / 8) }
  private var index: Int { word % (IndexLayout.bucketByteCount / 8) }

  var entryOffset: Int { IndexLayout.headerByteCount &+ 8 &* word }
  var timeOffset: Int { IndexLayout.bucketOffset(bucket) &+ IndexLayout.timesOffset &+ 4 &* index }
}
