internal import Synchronization

/// A search for the entries of a name: those with its tag, bucket by bucket.
///
/// The tag makes it likely that the name fits; only the record tells. Any bytes of an index end it.
struct IndexProbe: Sendable {
  private let tag: UInt16
  private var bucket: Int
  /// Of the five of the bucket.
  private var index = 0
  private var bucketsLeft: Int

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
    while bucketsLeft > 0 {
      while index < IndexLayout.entriesPerBucket {
        let slot = IndexSlot(bucket: bucket, index)
        index &+= 1
        let entry = table.entry(at: slot)
        if entry.tag == tag, !entry.isEmpty { return (slot, entry) }
      }
      guard table.hasOverflown(bucket) else {
        bucketsLeft = 0
        break
      }
      index = 0
      bucket = table.bucket(after: bucket)
      bucketsLeft &-= 1
    }
    return nil
  }
}
