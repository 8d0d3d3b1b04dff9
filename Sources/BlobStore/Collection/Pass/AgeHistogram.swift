package import BlobRecord

/// Bytes by update time, in bounded memory.
///
/// It finds the time before which records must go to free a number of bytes. Times fall into `bucketCount` buckets of
/// 2^shift seconds. A time outside the buckets doubles their width until it fits.
///
/// Invariant: every time added lies in bucket `index(of:)`, which is in 0..<bucketCount.
package struct AgeHistogram {
  package struct Bucket: Equatable, Sendable {
    package var bytes: Int64 = 0
    package var records: Int64 = 0
  }

  /// Where freeing from the oldest on comes to an end.
  package struct Boundary: Equatable, Sendable {
    package let times: ClosedRange<UnixTime>
    package let bucket: Bucket
    /// The sum of the buckets before.
    package let olderBytes: Int64
    package let olderRecords: Int64
  }

  /// Sixteen thousand seconds, four hours and a half, are told apart to the second, in 256 KiB.
  package static let bucketCount: UInt64 = 16_384

  private var buckets = [Bucket](repeating: Bucket(), count: Int(bucketCount))
  private var shift: UInt64 = 0
  /// The number of the first bucket, counted from the lowest time there is.
  private var first: UInt64?

  package init() {}

  package mutating func add(_ time: UnixTime, bytes: Int64) {
    let position = Self.position(of: time)
    makeRoom(for: position)
    let index = Int((position >> shift) - first!)
    buckets[index].bytes.saturatingAdd(bytes)
    buckets[index].records += 1
  }

  /// The bucket in which freeing from the oldest on reaches both `bytes` and `records`.
  ///
  /// It comes with its contents; nil if all buckets together do not suffice.
  package func boundary(freeing bytes: Int64, records: Int64 = 0) -> Boundary? {
    guard let first else { return nil }
    var older = Bucket()
    for (index, bucket) in buckets.enumerated() where bucket.records > 0 {
      let sum = Bucket(bytes: older.bytes.saturatingAdding(bucket.bytes), records: older.records + bucket.records)
      guard sum.bytes >= bytes, sum.records >= records else {
        older = sum
        continue
      }
      let start = (first + UInt64(index)) << shift
      return Boundary(
        times: Self.time(at: start)...Self.time(at: start | (1 << shift &- 1)), bucket: bucket, olderBytes: older.bytes,
        olderRecords: older.records)
    }
    return nil
  }

  /// The newest time up to which there are at most so many records.
  ///
  /// nil if the first bucket with records holds more.
  package func newestTime(holding records: Int64) -> UnixTime? {
    guard let first, let oldest = buckets.firstIndex(where: { $0.records > 0 }) else { return nil }
    return times(from: Self.time(at: (first + UInt64(oldest)) << shift), holding: records)?.upperBound
  }

  /// The times from the bucket of `start` on that hold at most so many records.
  ///
  /// nil if that bucket holds more.
  package func times(from start: UnixTime, holding records: Int64) -> ClosedRange<UnixTime>? {
    guard let first else { return nil }
    let position = Self.position(of: start) >> shift
    guard position >= first, position - first < Self.bucketCount else { return nil }
    var sum: Int64 = 0
    var end: UInt64?
    // Empty ones may lie past the last time there is.
    for index in Int(position - first)..<buckets.count where buckets[index].records > 0 {
      sum += buckets[index].records
      guard sum <= records else { break }
      end = ((first + UInt64(index)) << shift) | (1 << shift &- 1)
    }
    return end.map { Self.time(at: position << shift)...Self.time(at: $0) }
  }

  private mutating func makeRoom(for position: UInt64) {
    guard let oldFirst = first else {
      // Earlier and later times are as likely as each other.
      first = (position >> shift) &- min(position >> shift, Self.bucketCount / 2)
      return
    }
    // Subtracted, because the sum overflows for the last times there are.
    guard position >> shift < oldFirst || (position >> shift) - oldFirst >= Self.bucketCount else { return }
    let used = buckets.indices.filter { buckets[$0].records > 0 }
    let lowest = used.first.map { (oldFirst + UInt64($0)) << shift } ?? position
    let highest = used.last.map { (oldFirst + UInt64($0)) << shift } ?? position
    let low = min(lowest, position)
    let high = max(highest, position)
    var newShift = shift
    while (high >> newShift) - (low >> newShift) >= Self.bucketCount { newShift += 1 }
    // Half of the buckets that are left over lie before: times that come in falling order do not move all each time.
    let slack = Self.bucketCount - 1 - ((high >> newShift) - (low >> newShift))
    let newFirst = (low >> newShift) - min(low >> newShift, slack / 2)
    var moved = [Bucket](repeating: Bucket(), count: Int(Self.bucketCount))
    for index in used {
      let target = Int((((oldFirst + UInt64(index)) << shift) >> newShift) - newFirst)
      moved[target].bytes.saturatingAdd(buckets[index].bytes)
      moved[target].records += buckets[index].records
    }
    buckets = moved
    shift = newShift
    first = newFirst
  }

  /// Times as unsigned numbers in the same order, so that widths never overflow.
  private static func position(of time: UnixTime) -> UInt64 {
    UInt64(bitPattern: time.seconds) ^ (1 << 63)
  }

  private static func time(at position: UInt64) -> UnixTime {
    UnixTime(seconds: Int64(bitPattern: position ^ (1 << 63)))
  }
}
