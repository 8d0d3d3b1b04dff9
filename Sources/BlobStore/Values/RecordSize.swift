internal import BlobRecord

/// A record file as the counters see it.
struct RecordSize: Equatable {
  var bytes: Int64
  var isLocked: Bool

  /// A record whose payload is not complete: it counts with its header alone, as a temporary file counts nothing.
  ///
  /// So its writer need not hold the key for each piece. The payload is counted with the commit.
  static let stream = RecordSize(bytes: Int64(RecordHeader.byteCount), isLocked: false)

  /// What is counted while a record may or may not have taken the place of another: as much as either of them.
  func covering(_ other: RecordSize?) -> RecordSize {
    guard let other else { return self }
    return RecordSize(bytes: max(bytes, other.bytes), isLocked: isLocked || other.isLocked)
  }
}

/// Files that may replace each other without gaining or losing many blocks.
///
/// Up to eight blocks, a class has files of one number of blocks. Above, there are four classes to each doubling: the
/// largest file of a class is less than a quarter larger than its smallest.
struct SizeClass: Hashable {
  /// From 0, below `count`.
  let number: Int

  /// As many as it takes for the largest file there could be.
  static let count = SizeClass(.max).number + 1

  /// The bytes of a block, which file systems allocate at a time, and of a page.
  static let blockByteCount: Int64 = 4096

  /// - Parameter byteCount: of the whole file, header included.
  init(_ byteCount: Int64) {
    // A block that is begun is taken; an empty file is as good as one of a block.
    let last = max(0, byteCount - 1) / Self.blockByteCount
    // The two bits below the highest one tell the class among those of the doubling.
    let shift = max(0, last.highestBit - 2)
    number = shift * 4 + Int(last >> Int64(shift))
  }
}

extension Int64 {
  /// Of the highest bit that is set; 0 for 0.
  fileprivate var highestBit: Int { self > 0 ? 63 - leadingZeroBitCount : 0 }
}
