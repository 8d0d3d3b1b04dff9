internal import BlobRecord

/// The size of a record file in the counters.
struct RecordSize: Equatable {
  var bytes: Int64
  var isLocked: Bool

  /// An incomplete record, which counts only its header until the commit, because pieces are written without a hold.
  static let stream = RecordSize(bytes: Int64(RecordHeader.byteCount), isLocked: false)

  /// Returns the size that is counted while either of two records may be in place.
  func covering(_ other: RecordSize?) -> RecordSize {
    guard let other else { return self }
    return RecordSize(bytes: max(bytes, other.bytes), isLocked: isLocked || other.isLocked)
  }
}

/// A class of files that can replace each other without gaining or losing many blocks.
///
/// Up to eight blocks, each number of blocks is a class. Above, each doubling has four classes, so the largest file
/// of a class is less than a quarter larger than its smallest.
struct SizeClass: Hashable {
  let number: Int

  /// The number of classes, which includes the class of the largest possible file.
  static let count = SizeClass(.max).number + 1

  /// The size of a page, and of the blocks that file systems allocate.
  static let blockByteCount: Int64 = 4096

  init(_ byteCount: Int64) {
    // A partial block takes a whole one, and an empty file counts as one block.
    let last = max(0, byteCount - 1) / Self.blockByteCount
    // The two bits below the highest one are the number of the class within the doubling.
    let shift = max(0, last.highestBit - 2)
    number = shift * 4 + Int(last >> Int64(shift))
  }
}

extension Int64 {
  fileprivate var highestBit: Int { self > 0 ? 63 - leadingZeroBitCount : 0 }
}

extension Int64 {
  /// Returns the sum, clamped to the range of the type.
  ///
  /// File systems allow sparse files of almost 2^63 bytes, and the sum of two must not end the process.
  package func saturatingAdding(_ other: Int64) -> Int64 {
    let (sum, overflow) = addingReportingOverflow(other)
    return overflow ? (other > 0 ? .max : .min) : sum
  }

  package func saturatingSubtracting(_ other: Int64) -> Int64 {
    let (difference, overflow) = subtractingReportingOverflow(other)
    return overflow ? (other > 0 ? .min : .max) : difference
  }

  package mutating func saturatingAdd(_ other: Int64) {
    self = saturatingAdding(other)
  }

  /// Returns a fraction, rounded down, in exact thousandths even for amounts that a `Double` cannot represent.
  func share(_ fraction: Double) -> Int64 {
    let thousandths = Int64((fraction * 1000).rounded())
    return self / 1000 * thousandths + self % 1000 * thousandths / 1000
  }
}
