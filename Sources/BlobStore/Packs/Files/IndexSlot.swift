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
